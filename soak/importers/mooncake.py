"""
Mooncake traces and Bailian's: one request a line with its lengths and block hashes, no text.

`{timestamp (ms), input_length, output_length, hash_ids}` of blocks of 512 tokens, without a session: a request goes on
with an earlier one if it begins with all its full blocks and is long enough to hold its answer too. Bailian's lines
(blocks of 16, seconds) name their parent. Each conversation becomes a load-shape episode with filler text.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.filler import Filler, bundled_filler
from soak.importers.load_shape import Shape, shaped
from soak.importers.tally import Tally
from soak.importers.values import count, listing, mapping, number

OPEN_BLOCKS_MAX = 400_000
_BLOCK_TOKENS = 512
_BAILIAN_BLOCK_TOKENS = 16


class _Conversation(msgspec.Struct, kw_only=True):
    """Requests that go on with each other; `mark` is the prefix by which the next is known."""

    id: str
    shapes: list[Shape]
    mark: int
    end_s: float


def recognises(value: Any) -> bool:
    """Return whether `value` is such a line."""
    if not isinstance(value, dict) or "messages" in value or "payload" in value:
        return False
    return {"input_length", "output_length", "hash_ids"} <= value.keys()


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation that can be told from the hashes."""
    trace = _Trace(name, tally)
    for entry in entries:
        yield from trace.add(mapping(entry.value), entry)
    yield from trace.finish()


FORMAT = Format(name="mooncake", recognises=recognises, read=read)


class _Trace:
    """The requests of a file so far, and those that may go on."""

    def __init__(self, name: str, tally: Tally) -> None:
        self._name = name
        self._tally = tally
        self._filler: Filler | None = None
        self._open: dict[int, _Conversation] = {}
        self._blocks = 0
        self._requests = 0
        self._longest = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0

    def add(self, row: dict[str, Any], entry: Entry) -> Iterator[Episode]:
        """Take one line; yield the episodes of conversations that are closed for it."""
        shape = _shape(row)
        if shape is None:
            self._tally.drop("a line that is no request")
            return
        self._requests += 1
        self._longest = max(self._longest, shape.prompt_tokens)
        self._prompt_tokens += shape.prompt_tokens
        self._completion_tokens += shape.completion_tokens
        self._blocks += len(shape.blocks)
        at_s = (number(row.get("timestamp")) or 0.0) / (1 if "chat_id" in row else 1000)
        marks = _marks(shape)
        found = self._found(row, shape, marks)
        if found is None:
            found = _Conversation(id=f"{self._name}-{entry.number or 1:06d}", shapes=[], mark=0, end_s=at_s)
        else:
            shape.wait_s = round(max(at_s - found.end_s, 0.0), 3)
        found.shapes.append(shape)
        found.mark = self._mark(row, marks)
        found.end_s = at_s
        yield from self._close(self._open.pop(found.mark, None))
        self._open[found.mark] = found
        while self._blocks > OPEN_BLOCKS_MAX and len(self._open) > 1:
            yield from self._close(self._open.pop(next(iter(self._open))))

    def finish(self) -> Iterator[Episode]:
        """Yield the episodes of the conversations that are still open, and tell the totals."""
        for conversation in list(self._open.values()):
            yield from self._close(conversation)
        if self._requests:
            self._tally.note(
                f"{self._requests} requests, prompts up to {self._longest} tokens, "
                f"on average {self._prompt_tokens / self._requests:.1f} tokens in and "
                f"{self._completion_tokens / self._requests:.1f} out"
            )

    def _found(self, row: dict[str, Any], shape: Shape, marks: list[int]) -> _Conversation | None:
        """Return the conversation the request goes on with, taken out of those that are open."""
        if "chat_id" in row:
            return self._open.pop(hash(("chat", str(row.get("parent_chat_id")))), None)
        for mark in reversed(marks):
            found = self._open.get(mark)
            if found is not None and shape.prompt_tokens >= _whole(found.shapes[-1]):
                return self._open.pop(mark)
        return None

    def _mark(self, row: dict[str, Any], marks: list[int]) -> int:
        """Return the mark under which the next request will look for this one."""
        if "chat_id" in row:
            return hash(("chat", str(row["chat_id"])))
        return marks[-1] if marks else hash(("row", self._requests))

    def _close(self, conversation: _Conversation | None) -> Iterator[Episode]:
        if conversation is None:
            return
        self._blocks -= sum(len(shape.blocks) for shape in conversation.shapes)
        self._filler = self._filler or bundled_filler()
        episode = shaped(conversation.id, conversation.shapes, scope=self._name, filler=self._filler, tally=self._tally)
        if episode is not None:
            yield episode


def _shape(row: dict[str, Any]) -> Shape | None:
    prompt, completion = count(row.get("input_length")), count(row.get("output_length"))
    if prompt is None or completion is None:
        return None
    return Shape(
        blocks=tuple(one for one in listing(row.get("hash_ids")) if isinstance(one, int | str)),
        block_tokens=_BAILIAN_BLOCK_TOKENS if "chat_id" in row else _BLOCK_TOKENS,
        prompt_tokens=prompt,
        completion_tokens=completion,
    )


def _whole(shape: Shape) -> int:
    """Return the tokens a conversation has after a request: its prompt and answer."""
    return shape.prompt_tokens + shape.completion_tokens


def _marks(shape: Shape) -> list[int]:
    """Return a mark for each run of full blocks that the prompt begins with."""
    marks: list[int] = []
    mark = 0
    for block in shape.blocks[: shape.prompt_tokens // shape.block_tokens]:
        mark = hash((mark, block))
        marks.append(mark)
    return marks

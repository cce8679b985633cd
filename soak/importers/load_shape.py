"""
Requests known by length and block hashes only → episodes with filler text of those lengths and shared prefixes.

Equal block hashes give equal text, so what shared a prefix in the trace shares one here. Where a request goes on with
the one before it, what the model wrote is an answer and the rest what came back to it; the last block of a prompt, not
yet full, is the beginning of what the next request has there. Where it does not, it branches off the last message that
both have. Such episodes say `load_shape` in `meta`: they show load, and no recorded answer is one a model gave.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from soak.facts import Episode, Message, Turn, characters, make_episode
from soak.facts.episode import CHARACTERS_PER_TOKEN
from soak.importers.filler import Filler
from soak.importers.tally import Tally

CONTEXTS_MAX = 8
PROMPT_TOKENS_MAX = 2_000_000
BLOCKS_MAX = 4_000_000
CHARACTERS_MAX = 16 << 20
_NO_PROMPT = f"a request without a prompt, or with one of more than {PROMPT_TOKENS_MAX} tokens"
_TOO_MANY = f"a conversation of more than {BLOCKS_MAX} blocks"


class Shape(msgspec.Struct, kw_only=True):
    """One request: `blocks` are the hashes of its prompt, of `block_tokens` each but the last."""

    blocks: Sequence[int | str]
    block_tokens: int
    prompt_tokens: int
    completion_tokens: int
    wait_s: float | None = None


class _Piece(msgspec.Struct):
    """A message of the tree: its place, who speaks, and the token at which it ends."""

    index: int
    role: str
    end: int


class _Context(msgspec.Struct):
    """What a model call saw: the request and its messages, and which turn it was."""

    shape: Shape
    keys: list[str]
    pieces: list[_Piece]
    turn: int


def shaped(
    id_: str,
    shapes: Sequence[Shape],
    *,
    scope: str,
    filler: Filler,
    tally: Tally,
    system_tokens: int = 0,
    meta: dict[str, Any] | None = None,
) -> Episode | None:
    """
    Return the episode of these requests in order; None, counted, if none has a prompt.

    Block hashes mean the same within one `scope`. The first `system_tokens` tokens are a system message.
    """
    kept = [shape for shape in shapes if 0 < shape.prompt_tokens <= PROMPT_TOKENS_MAX]
    for _ in range(len(shapes) - len(kept)):
        tally.drop(_NO_PROMPT)
    if not kept or not fits(kept):
        tally.drop("a conversation without requests" if not kept else _TOO_MANY)
        return None
    tree = _Tree(scope, filler, system_tokens)
    for shape, own in zip(kept, _keys(kept, id_), strict=True):
        tree.add(shape, own)
        if tree.characters > CHARACTERS_MAX:
            tally.drop(f"a conversation of more than {CHARACTERS_MAX >> 20} Mi characters")
            return None
    tally.added_characters += sum(characters(message) for message in tree.messages)
    told = {"prompt_tokens": [shape.prompt_tokens for shape in kept]}
    return make_episode(
        id_, tree.messages, parents=tree.parents, turns=tree.turns, meta={"load_shape": True, **(meta or {}), **told}
    )


def _keys(shapes: Sequence[Shape], id_: str) -> list[list[str]]:
    """Return the text keys of each request's blocks; a block that is not full has that of the block it becomes."""
    keys: list[list[str]] = []
    for k in range(len(shapes) - 1, -1, -1):
        shape = shapes[k]
        full, needed = shape.prompt_tokens // shape.block_tokens, -(-shape.prompt_tokens // shape.block_tokens)
        own = [str(block) for block in shape.blocks[:needed]]
        own += [f"{id_}/{k}/{j}" for j in range(len(own), needed)]
        later = keys[-1] if keys else []
        if needed > full and len(later) > full and later[:full] == own[:full]:
            own[full] = later[full]
        keys.append(own)
    keys.reverse()
    return keys


def fits(shapes: Sequence[Shape]) -> bool:
    """Return whether the requests have so few blocks in all that they can be held."""
    return sum(shape.prompt_tokens // shape.block_tokens + 1 for shape in shapes) <= BLOCKS_MAX


class _Tree:
    """The messages of the requests so far."""

    def __init__(self, scope: str, filler: Filler, system_tokens: int) -> None:
        self.messages: list[Message] = []
        self.parents: list[int | None] = []
        self.turns: list[Turn] = []
        self.characters = 0
        self._scope = scope
        self._filler = filler
        self._system_tokens = system_tokens
        self._contexts: list[_Context] = []

    def add(self, shape: Shape, keys: list[str]) -> None:
        """Add one request: what it shares with an earlier one, the answer in between, and what is new."""
        context, shared = self._nearest(shape, keys)
        pieces = [] if context is None else [piece for piece in context.pieces if piece.end <= shared]
        whole = context is not None and len(pieces) == len(context.pieces)
        start = pieces[-1].end if pieces else 0
        answered = min(context.shape.completion_tokens, shape.prompt_tokens - start - 1) if context and whole else 0
        if context is not None and answered > 0:
            pieces.append(self._say("assistant", keys, shape, pieces, start + answered))
            self.turns[context.turn] = msgspec.structs.replace(self.turns[context.turn], answer=pieces[-1].index)
        while pieces and (pieces[-1].role == "user" or pieces[-1].end >= shape.prompt_tokens):
            pieces.pop()
        if not pieces and 0 < self._system_tokens < shape.prompt_tokens:
            pieces.append(self._say("system", keys, shape, pieces, self._system_tokens))
        pieces.append(self._say("user", keys, shape, pieces, shape.prompt_tokens))
        turn = len(self.turns)
        wait_s = shape.wait_s if turn else None
        length = shape.completion_tokens or None
        self.turns.append(Turn(index=turn, prefix=pieces[-1].index, wait_s=wait_s, completion_tokens=length))
        if context is not None and whole:
            self._contexts.remove(context)
        self._contexts.append(_Context(shape, keys, pieces, turn))
        del self._contexts[:-CONTEXTS_MAX]

    def _nearest(self, shape: Shape, keys: list[str]) -> tuple[_Context | None, int]:
        """Return the context with which the request has most in common, and how many tokens."""
        best, most = None, 0
        for context in reversed(self._contexts):
            blocks = _common(context.keys, keys)
            own = min(blocks * shape.block_tokens, context.shape.prompt_tokens, shape.prompt_tokens)
            if own > most:
                best, most = context, own
        return best, most

    def _say(self, role: Any, keys: list[str], shape: Shape, before: list[_Piece], end: int) -> _Piece:
        """Add a message with the text from the end of `before` to `end`."""
        start = before[-1].end if before else 0
        size = shape.block_tokens
        first, last = start // size, -(-end // size)
        text = "".join(self._filler.tokens(f"{self._scope}/{key}", size) for key in keys[first:last])
        text = text[(start - first * size) * CHARACTERS_PER_TOKEN : (end - first * size) * CHARACTERS_PER_TOKEN]
        self.characters += len(text)
        self.messages.append(Message(role=role, content=text))
        self.parents.append(before[-1].index if before else None)
        return _Piece(len(self.messages) - 1, role, end)


def _common(one: list[str], other: list[str]) -> int:
    """Return how many keys two lists begin with in common."""
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low if not limit or one[:high] != other[:high] else high

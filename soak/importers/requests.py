"""
Requests, each with the whole history, → conversations: for traces and logs that hold one request a record.

A request goes on with an open conversation if it has the same tools and begins with all that conversation's last
request had, but for at most three messages at its end (a status line that is sent once and not kept), and then has
an answer. Conversations that say who they are (`key`) are also followed where their history was rewritten. What no
request went on with for long is closed, so that a file of any size is read in bounded memory.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from soak.facts import Episode, Message
from soak.importers.assembly import TAIL_MAX, Thread
from soak.importers.messages import Read, read_message
from soak.importers.tally import Tally
from soak.importers.values import count, listing, mapping, text

OPEN_MAX = 24
OPEN_BYTES_MAX = 48 << 20
REPEATED = "a conversation that was read before"

PARAMETERS = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
)


class Request(msgspec.Struct, kw_only=True):
    """
    One request as found: raw messages in the manner of OpenAI, and the answer if the record has it.

    `key` tells requests of one conversation (None: not told), `asked` what is known of the answer, `wait_s` the pause
    before the request; `size` is the record's size in bytes.
    """

    messages: list[Any]
    answer: dict[str, Any] | None = None
    asked: Read | None = None
    tools: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = {}
    id: str
    key: str | None = None
    wait_s: float | None = None
    at_s: float | None = None
    size: int = 0


class _Open(msgspec.Struct, kw_only=True):
    """A conversation that may go on: its last request, the messages read from it, and the tree so far."""

    thread: Thread
    last: Request
    reads: list[Read | None]
    id: str
    tools: tuple[dict[str, Any], ...]
    meta: dict[str, Any]
    number: int


class Conversations:
    """Requests in, episodes out, as soon as a conversation is surely over."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._open: list[_Open] = []
        self._started = 0

    def add(self, request: Request) -> Iterator[Episode]:
        """Take one request; yield the episodes of conversations that are closed for it."""
        found = self._match(request)
        if found is None:
            self._start(request)
        elif not self._is_repeat(found, request):
            self._open.remove(found)
            self._open.append(found)
            self._go_on(found, request)
        else:
            self._tally.drop(REPEATED)
        while len(self._open) > 1 and self._is_full():
            yield from self._close(self._open.pop(0))

    def finish(self) -> Iterator[Episode]:
        """Yield the episodes of all conversations that are still open, in the order in which they began."""
        for conversation in sorted(self._open, key=lambda one: one.number):
            yield from self._close(conversation)
        self._open.clear()

    def tools_for(self, messages: list[Any]) -> tuple[dict[str, Any], ...]:
        """Return the tools of the open conversation that `messages` have most in common with; none where none has."""
        best = max(self._open, key=lambda one: _shared(one.last.messages, messages), default=None)
        return best.tools if best is not None and _shared(best.last.messages, messages) else ()

    def _is_full(self) -> bool:
        return len(self._open) > OPEN_MAX or sum(one.last.size for one in self._open) > OPEN_BYTES_MAX

    def _match(self, request: Request) -> _Open | None:
        """Return the conversation that `request` goes on with: the one it has most in common with, the later first."""
        best, most = None, 0
        for conversation in reversed(self._open):
            if request.key is not None and conversation.last.key not in (None, request.key):
                continue
            shared = _goes_on(conversation, request)
            if shared > most:
                best, most = conversation, shared
        return best

    def _is_repeat(self, found: _Open, request: Request) -> bool:
        """Return whether the same request was sent again and nothing new came of it."""
        if request.messages != found.last.messages:
            return False
        if found.last.answer is None and request.answer is not None:
            found.last = msgspec.structs.replace(found.last, answer=request.answer, asked=request.asked)
        return True

    def _start(self, request: Request) -> None:
        self._started += 1
        conversation = _Open(
            thread=Thread(),
            last=request,
            reads=[],
            id=request.id,
            tools=request.tools,
            meta=request.meta,
            number=self._started,
        )
        self._open.append(conversation)
        conversation.reads = self._read(request, [])
        self._extend(conversation, request)

    def _go_on(self, conversation: _Open, request: Request) -> None:
        shared = _shared(conversation.last.messages, request.messages)
        conversation.reads = self._read(request, conversation.reads[:shared])
        if conversation.last.answer is not None:
            self._keep_answer(conversation, request, shared)
        conversation.last = request
        self._extend(conversation, request)

    def _keep_answer(self, conversation: _Open, request: Request, shared: int) -> None:
        """See that the answer in the last record is not lost where the next request does not repeat it."""
        after = request.messages[shared] if shared < len(request.messages) else None
        if mapping(after).get("role") == "assistant":
            return
        answer = self._answer(conversation.last)
        if answer is not None:
            conversation.thread.extend([*_present(conversation.reads[:shared]), answer])

    def _read(self, request: Request, known: list[Read | None]) -> list[Read | None]:
        """Return the messages of a request; `known` are those at its beginning that were read before."""
        reads = list(known)
        for i in range(len(known), len(request.messages)):
            message = read_message(request.messages[i], i, self._tally)
            reads.append(None if message is None else Read(message=message))
        if len(reads) > len(known) and reads[-1] is not None:
            reads[-1].at_s = request.at_s
        return reads

    def _extend(self, conversation: _Open, request: Request) -> None:
        conversation.thread.extend(_present(conversation.reads), asked=request.asked, wait_s=request.wait_s)

    def _answer(self, request: Request) -> Read | None:
        """Return the answer that a record has, with what is known of it."""
        message = None if request.answer is None else read_message(request.answer, len(request.messages), self._tally)
        if message is None:
            return None
        asked = request.asked or Read(message=message)
        return msgspec.structs.replace(asked, message=message)

    def _close(self, conversation: _Open) -> Iterator[Episode]:
        answer = self._answer(conversation.last)
        if answer is not None:
            conversation.thread.extend([*_present(conversation.reads), answer])
        episode = conversation.thread.finish(
            id_=conversation.id, tools=conversation.tools, meta=conversation.meta, tally=self._tally
        )
        if episode is not None:
            yield episode


def _present(reads: list[Read | None]) -> list[Read]:
    return [read for read in reads if read is not None]


def _shared(one: list[Any], other: list[Any]) -> int:
    """Return how many messages two lists begin with in common."""
    limit = min(len(one), len(other))
    return next((i for i in range(limit) if one[i] != other[i]), limit)


def _goes_on(conversation: _Open, request: Request) -> int:
    """Return how many messages a request shares with a conversation it goes on with; 0 where it does not."""
    last = conversation.last
    if not last.messages or not request.messages or last.messages[0] != request.messages[0]:
        return 0
    if conversation.tools != request.tools:
        return 0
    shared = _shared(last.messages, request.messages)
    if shared == len(last.messages):
        return shared if _speaks(last.messages) else 0
    if request.key is not None and request.key == last.key:
        return max(shared, 1)
    ended = mapping(last.messages[-1]).get("role") == "assistant"
    follows = shared < len(request.messages) and mapping(request.messages[shared]).get("role") == "assistant"
    near = len(last.messages) - shared <= TAIL_MAX
    return shared if near and follows and not ended and _speaks(last.messages[:shared]) else 0


def _speaks(messages: list[Any]) -> bool:
    """Return whether anything but system text is among `messages`."""
    return any(mapping(message).get("role") not in ("system", "developer") for message in messages)


def answer_of(response: dict[str, Any]) -> tuple[dict[str, Any] | None, Read | None]:
    """Return the answer in a chat completion, and what the completion tells of it; (None, None) where it is none."""
    choice = mapping(next(iter(listing(response.get("choices"))), None))
    message = choice.get("message")
    if not isinstance(message, dict):
        return None, None
    usage = mapping(response.get("usage"))
    asked = asked_of(usage, choice.get("finish_reason"))
    return {"role": "assistant", **message}, asked


def asked_of(usage: dict[str, Any], finish_reason: Any = None) -> Read:
    """Return a stand-in for an answer with the usage and finish reason that are told of it."""
    completion = count(usage.get("completion_tokens", usage.get("output_tokens")))
    prompt = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    return Read(
        message=Message(role="assistant"),
        completion_tokens=completion,
        prompt_tokens=prompt,
        finish_reason=text(finish_reason),
    )


def tools_of(given: Any, functions: Any, tally: Tally) -> tuple[dict[str, Any], ...]:
    """Return the tool schemas; legacy `functions` and bare schemas are wrapped, those without a name dropped."""
    tools = listing(given)
    if not tools and listing(functions):
        tally.repair("legacy functions taken as tools")
        tools = [{"type": "function", "function": function} for function in listing(functions)]
    kept = [tool for tool in map(_wrapped, tools) if _is_tool(tool)]
    for _ in range(len(tools) - len(kept)):
        tally.drop("a tool schema without a name")
    return tuple(kept)


def _wrapped(tool: Any) -> Any:
    """Return a schema that is given without its wrapper as OpenAI's chat API has it; others as they are."""
    if not isinstance(tool, dict) or "function" in tool or tool.get("type") not in (None, "function"):
        return tool
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if name in tool}}


def _is_tool(tool: Any) -> bool:
    function = tool.get("function", tool.get("custom")) if isinstance(tool, dict) else None
    return isinstance(function, dict) and text(function.get("name")) is not None

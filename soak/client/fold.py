"""One attempt's chunks folded into an answer: both stream paths use it, so they cannot come to differ."""

from collections.abc import Callable
from typing import Literal

import msgspec

from soak.client.drafts import drafted_of
from soak.client.events import CallDelta, ChatEvent, Choice, Delta, usage_of
from soak.facts import Chunk, Drafted, Ending, Logprob, ToolCall, ToolCallDelta, Usage

CALLS_LIMIT = 1024
_WORD_LIMIT = 200

# How the stream came to its close: the server ended it, the connection broke, or one of the endings we know at once.
Closed = Literal[
    "end",
    "broken",
    "http_error",
    "error_event",
    "malformed",
    "deadline_first_chunk",
    "deadline_gap",
    "deadline_turn",
    "cut",
    "too_large",
]
_NOTHING = Delta()
_OUR_DOING = frozenset({"deadline_first_chunk", "deadline_gap", "deadline_turn", "cut", "too_large"})


class CallParts:
    """A tool call as it grows."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def add(self, delta: ToolCallDelta) -> None:
        """Take one more piece."""
        self.id = self.id or delta.id or ""
        self.name = self.name or delta.name or ""
        if delta.arguments:
            self.arguments.append(delta.arguments)

    def fact(self) -> ToolCall:
        """Return the call so far."""
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.arguments))


class Fold:
    """What has come back so far; times are stopwatch seconds, `first_text_at` None until text came."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, CallParts] = {}
        self._call_of_id: dict[str, int] = {}
        self._last_call = 0
        self._next_call = 0
        self._choice_index: int | None = None
        self.token_ids: list[int] | None = None
        self.logprobs: list[Logprob] | None = None
        self.finish_reason: str | None = None
        self.stop_reason: str | int | None = None
        self.usage: Usage | None = None
        self.drafted: Drafted | None = None
        self.done = False
        self.id: str | None = None
        self.model: str | None = None
        self.chunks = 0
        self.first_text_at: float | None = None
        self.last_text_at = 0.0
        self.last_at = 0.0
        self.max_gap_s = 0.0
        self.defects: dict[str, None] = {}

    @property
    def begun(self) -> bool:
        """Whether the answer has begun: after that nothing may be sent again."""
        return self.first_text_at is not None or self.finish_reason is not None

    def take(self, event: ChatEvent, at: float) -> Chunk | None:
        """Add one event read at `at`; return its chunk, None where it carries nothing of the answer."""
        self.last_at = at
        if self.id is None:
            self.id, self.model = _short(event.id), _short(event.model)
        if event.usage is not None:
            self.usage = usage_of(event.usage) or self.usage
        if event.tells_more:
            told = drafted_of(metrics=event.metrics, sglext=event.sglext, timings=event.timings)
            self.drafted = told or self.drafted
        if not event.choices:
            if event.usage is None and event.choices is None:
                self.defects["odd_event"] = None
            return None
        choice = self._ours(event.choices)
        if choice is None or len(event.choices) > 1:
            self.defects["extra_choice"] = None
        return None if choice is None else self._choice(choice, at)

    def _ours(self, choices: list[Choice]) -> Choice | None:
        """Return the choice with index 0 (or the only one, whatever its index), and then always that of this index."""
        if self._choice_index is None:
            lone = len(choices) == 1
            self._choice_index = (choices[0].index or 0) if lone else 0
        for choice in choices:
            if (choice.index or 0) == self._choice_index:
                return choice
        return None

    def _choice(self, choice: Choice, at: float) -> Chunk | None:
        ids = choice.token_ids
        if ids:
            self.token_ids = ids if self.token_ids is None else self.token_ids
            if self.token_ids is not ids:
                self.token_ids.extend(ids)
        if choice.logprobs is not None and choice.logprobs.content:
            self.logprobs = self.logprobs or []
            self.logprobs.extend(token.fact() for token in choice.logprobs.content)
        delta = choice.delta or _NOTHING
        content = delta.content_text
        reasoning = delta.reasoning_content or delta.reasoning or ""
        refusal = delta.refusal or ""
        calls = self._calls(delta.tool_calls) if delta.tool_calls else ()
        if content:
            self.content.append(content)
        if reasoning:
            self.reasoning.append(reasoning)
        if refusal:
            self.refusal.append(refusal)
        has_text = bool(content or reasoning or refusal or calls)
        if has_text:
            self._text(at)
        finish = self._finish(choice) if choice.finish_reason else None
        if not has_text and not ids and finish is None:
            return None
        return Chunk(
            content=content,
            reasoning=reasoning,
            tool_calls=calls,
            refusal=refusal,
            token_ids=tuple(ids) if ids else (),
            finish_reason=finish,
        )

    def _text(self, at: float) -> None:
        self.chunks += 1
        if self.first_text_at is None:
            self.first_text_at = at
        elif at - self.last_text_at > self.max_gap_s:
            self.max_gap_s = at - self.last_text_at
        self.last_text_at = at
        if self.finish_reason is not None:
            self.defects["text_after_finish"] = None

    def _finish(self, choice: Choice) -> str:
        reason = (choice.finish_reason or "")[:_WORD_LIMIT]
        if self.finish_reason is not None:
            self.defects["two_finish_reasons"] = None
        else:
            self.finish_reason = reason
            stop = choice.stop_reason
            if isinstance(stop, str):
                self.stop_reason = stop[:_WORD_LIMIT]
            elif isinstance(stop, int) and abs(stop) < 2**53:
                self.stop_reason = stop
        return reason

    def _calls(self, deltas: list[CallDelta]) -> tuple[ToolCallDelta, ...]:
        kept = []
        for position, delta in enumerate(deltas):
            fact = delta.fact(self._call_index(delta, position))
            self._last_call = fact.index
            parts = self.calls.get(fact.index)
            if parts is None:
                if len(self.calls) >= CALLS_LIMIT:
                    self.defects["too_many_tool_calls"] = None
                    continue
                parts = self.calls[fact.index] = CallParts()
                self._next_call = max(self._next_call, fact.index + 1)
            parts.add(fact)
            self._call_of_id[parts.id] = fact.index
            kept.append(fact)
        return tuple(kept)

    def _call_index(self, delta: CallDelta, position: int) -> int:
        """
        Return which call a piece belongs to. Without an index: to that of its id, which may be a new one; without an
        id as well, to the last call, unless it is a further named one in the same chunk.
        """
        if delta.index is not None:
            return delta.index
        if delta.id is not None and delta.id != "":
            return self._call_of_id.get(str(delta.id), self._next_call)
        another = position > 0 and delta.function is not None and delta.function.name
        return self._next_call if another else self._last_call

    def tool_calls(self, scrub: Callable[[str], str] = str) -> tuple[ToolCall, ...]:
        """Return the calls in the order of their indices, their arguments without our secrets."""
        calls = (self.calls[index].fact() for index in sorted(self.calls))
        return tuple(
            msgspec.structs.replace(call, name=scrub(call.name), arguments=scrub(call.arguments)) for call in calls
        )

    def ending(self, closed: Closed) -> Ending:
        """Return what the close of the stream means after what has come."""
        if closed.startswith("deadline") and self.finish_reason is not None:
            self.defects["left_open"] = None
            closed = "end"
        if closed != "end" and closed != "broken":
            return closed
        if self.finish_reason is None:
            if closed == "end":
                return "no_finish"
            return "reset" if self.begun else "unreachable"
        if closed == "broken":
            self.defects["reset_after_finish"] = None
        self._note_missing()
        return "complete" if self.done or self.usage is not None else "no_end_marker"

    def _note_missing(self) -> None:
        if self.usage is None:
            self.defects["no_usage"] = None
        if not self.done:
            self.defects["no_end_marker"] = None
        counted = self.usage.completion if self.usage else None
        if self.token_ids is not None and counted is not None and counted != len(self.token_ids):
            self.defects["token_ids_incomplete"] = None


def is_our_doing(ending: Ending) -> bool:
    """Whether we ended the stream ourselves, so that its times are lower bounds."""
    return ending in _OUR_DOING


def _short(text: str | int | None) -> str | None:
    return None if text is None else str(text)[:_WORD_LIMIT]

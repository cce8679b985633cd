"""
The faults the fake server knows, each a script with the class and endings a right tool must give it.

`FAULTS` maps a name to a maker; `make(name, ask)` returns the script. "Once" faults happen to the first attempt at a
request only and are followed by a good answer. Loops need room to be one: with a max_tokens below 200 the request is
answered well instead.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fakes.answers import (
    Answer,
    Call,
    Sse,
    Style,
    events,
    limited,
    ordinary,
    prose,
    sentence,
    sse,
    token_count,
    tools_of,
)
from fakes.script import Close, End, Head, Raw, Reset, Script, Send, Silence, Step, Truth, Wait, cut, framed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request as the policy sees it; `ordinal` counts all chat requests from 0, `attempt` the arrivals of this one
    from 1; gaps are seconds between events."""

    body: dict[str, Any]
    rng: random.Random
    style: Style = field(default_factory=Style)
    ordinal: int = 0
    attempt: int = 1
    first_chunk_s: float = 0.0
    gap_s: float = 0.0
    answer_tokens: int = 60

    @property
    def max_tokens(self) -> int:
        """The most tokens the answer may have."""
        asked = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        return asked if isinstance(asked, int) and asked > 0 else 1024

    def ordinary(self) -> Answer:
        """Return a good answer; where the limit is too small for one, sane text up to it (finish length)."""
        answer = ordinary(self.body, self.rng, tokens=self.answer_tokens)
        if token_count(answer) <= self.max_tokens:
            return answer
        return limited(Answer(content=prose(self.rng, self.max_tokens + 1)), self.max_tokens)


_LEAST_LOOP_TOKENS = 200
JSON_HEADERS = (("content-type", "application/json"),)


def play(items: Sequence[Sse | bytes], ask: Ask) -> list[Step]:
    """Return the steps of a stream of these events, paced as the request is; it is not ended."""
    steps: list[Step] = [Wait(ask.first_chunk_s)] if ask.first_chunk_s else []
    steps.append(Head())
    if not ask.gap_s:
        joined = b"".join(framed(_data(item)) for item in items)
        return [*steps, Raw(joined, sum(item.tokens for item in items if isinstance(item, Sse)))]
    for item in items:
        steps += [Send(_data(item), item.tokens if isinstance(item, Sse) else 0), Wait(ask.gap_s)]
    return steps


def _data(item: Sse | bytes) -> bytes:
    return item.data if isinstance(item, Sse) else item


def stream(answer: Answer, ask: Ask, *, truth: Truth | None = None, **style: Any) -> Script:
    """Return the script of a whole, well-ended answer."""
    items = events(answer, replace(ask.style, **style))
    return Script([*play(items, ask), End()], finish=answer.finish, truth=truth)


def status(code: int, message: str, *, headers: tuple[tuple[str, str], ...] = (), kind: str = "Error") -> Script:
    """Return the script of an HTTP error, its body worded as vLLM words errors."""
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    length = ("content-length", str(len(body)))
    return Script([Head(code, (*JSON_HEADERS, length, *headers), chunked=False), Raw(body), End()])


def loop_answer(ask: Ask, *, unit: str | None = None, finish: str = "length") -> Answer:
    """Return an answer that falls into a loop after some good text and runs to max_tokens (at most 20,000)."""
    limit = min(ask.max_tokens, 20_000)
    start = prose(ask.rng, min(80, limit // 8))
    unit = unit or ask.rng.choice(
        (" the the", " " + sentence(ask.rng), "\n    return None", " wait, let me check again.")
    )
    text = start + unit * limit
    return replace(limited(Answer(content=text[: limit * 8 + len(start)]), limit), finish=finish)


def _ok(ask: Ask) -> Script:
    answer = ask.ordinary()
    expected = "max_tokens" if answer.finish == "length" else "ok"
    return stream(answer, ask, truth=Truth("none", expected))


def _loop(ask: Ask) -> Script:
    if ask.max_tokens < _LEAST_LOOP_TOKENS:
        return _ok(ask)
    return stream(loop_answer(ask), ask, truth=Truth("loop", "garbage_loop", ("complete", "cut")))


def _loop_reasoning(ask: Ask) -> Script:
    if ask.max_tokens < _LEAST_LOOP_TOKENS:
        return _ok(ask)
    answer = loop_answer(ask)
    moved = replace(answer, content="", reasoning=answer.content)
    return stream(moved, ask, truth=Truth("loop_reasoning", "garbage_loop", ("complete", "cut")))


def _loop_stop(ask: Ask) -> Script:
    if ask.max_tokens < _LEAST_LOOP_TOKENS:
        return _ok(ask)
    answer = loop_answer(replace(ask, body={**ask.body, "max_tokens": min(ask.max_tokens, 900)}), finish="stop")
    return stream(answer, ask, truth=Truth("loop_stop", "garbage_loop", ("complete", "cut")))


def _early_stop(ask: Ask) -> Script:
    text = ask.rng.choice(("I'll open the file and", "Let me look at the", "Now I will run the tests for"))
    return stream(Answer(content=text), ask, truth=Truth("early_stop", "early_stop"))


def _empty(ask: Ask) -> Script:
    return stream(Answer(content=""), ask, truth=Truth("empty", "early_stop"))


def _max_tokens(ask: Ask) -> Script:
    limit = min(ask.max_tokens, 20_000)
    answer = replace(limited(Answer(content=prose(ask.rng, limit + 1)), limit), finish="length")
    return stream(answer, ask, truth=Truth("max_tokens", "max_tokens"))


def _broken_tool_call(ask: Ask) -> Script:
    tools = tools_of(ask.body)
    if not tools:
        return _ok(ask)
    name = tools[0].get("function", tools[0]).get("name", "bash")
    call = Call(name, '{"command": "grep -n \'cache\' src/lo', "call_broken")
    answer = Answer(content=prose(ask.rng, 20), calls=(call,), finish="tool_calls")
    return stream(answer, ask, truth=Truth("broken_tool_call", "error"))


def _once(fault: Callable[[Ask], Script], name: str) -> Callable[[Ask], Script]:
    """Turn a fault into one that hits the first attempt only."""

    def maker(ask: Ask) -> Script:
        good = _ok(ask)
        expected = good.truth.expected if good.truth else "ok"
        script = fault(ask) if ask.attempt == 1 else good
        return replace(script, truth=Truth(name, expected))

    return maker


def _always(fault: Callable[[Ask], Script], name: str, *endings: str) -> Callable[[Ask], Script]:
    def maker(ask: Ask) -> Script:
        return replace(fault(ask), truth=Truth(name, "error", endings))

    return maker


def _http_429(ask: Ask) -> Script:
    return status(429, "Rate limit exceeded, retry later.", headers=(("retry-after", "0"),), kind="RateLimitError")


def _http_500(ask: Ask) -> Script:
    return status(
        500, "EngineCore encountered an issue. See stack trace for the root cause.", kind="InternalServerError"
    )


def _http_503(ask: Ask) -> Script:
    return status(503, "The server is overloaded.", kind="ServiceUnavailableError")


def _context_400(ask: Ask) -> Script:
    return status(400, context_message(8192, 8200, ask.max_tokens), kind="BadRequestError")


def context_message(limit: int, prompt_tokens: int, max_tokens: int) -> str:
    """Return vLLM's words for a request that does not fit the model's context."""
    return (
        f"This model's maximum context length is {limit} tokens. However, you requested {max_tokens} output tokens and "
        f"your prompt contains {prompt_tokens} input tokens, for a total of {prompt_tokens + max_tokens} tokens. "
        f"Please reduce the length of the input prompt or the number of requested output tokens."
    )


def _reset_first(ask: Ask) -> Script:
    return Script([Reset()])


def _close_first(ask: Ask) -> Script:
    return Script([Close()])


def _half(ask: Ask) -> list[Sse]:
    """Return the first half of a good answer's events, at least one of them with text."""
    items = events(ask.ordinary(), ask.style)
    return items[: max(3, len(items) // 2)]


def _error_event(ask: Ask) -> Script:
    error = {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}
    return Script([*play([*_half(ask), sse(error), sse(b"[DONE]")], ask), End()])


def _named_error_event(ask: Ask) -> Script:
    event = b'event: error\ndata: {"message": "worker lost", "code": 500}\n\n'
    return Script([*play([*_half(ask), event], ask), End()])


def _no_finish(ask: Ask) -> Script:
    return Script([*play(_half(ask), ask), End()])


def _no_finish_done(ask: Ask) -> Script:
    return Script([*play([*_half(ask), sse(b"[DONE]")], ask), End()])


def _malformed(ask: Ask) -> Script:
    return Script([*play([*_half(ask), b'data: {"id":"x","choices":[{"delta":{"cont\n\n'], ask), End()])


def _reset_middle(ask: Ask) -> Script:
    return Script([*play(_half(ask), ask), Wait(0.02), Reset()])


def _close_middle(ask: Ask) -> Script:
    return Script([*play(_half(ask), ask), Close()])


def _reset_after_finish(ask: Ask) -> Script:
    answer = ask.ordinary()
    items = events(answer, replace(ask.style, done=False))
    expected = "max_tokens" if answer.finish == "length" else "ok"
    steps = [*play(items, ask), Wait(0.02), Reset()]
    return Script(steps, finish=answer.finish, truth=Truth("reset_after_finish", expected))


def _style(name: str, endings: tuple[str, ...] = ("complete",), **style: Any) -> Callable[[Ask], Script]:
    def maker(ask: Ask) -> Script:
        answer = ask.ordinary()
        expected = "max_tokens" if answer.finish == "length" else "ok"
        return stream(answer, ask, truth=Truth(name, expected, endings), **style)

    return maker


def _recut(ask: Ask) -> Script:
    answer = ask.ordinary()
    spiced = replace(answer, content=answer.content + " – naïve 🙂 …")
    items = [event.data for event in events(spiced, ask.style)]
    expected = "max_tokens" if answer.finish == "length" else "ok"
    steps = [Head(), *cut(items, ask.rng.randint(1, 40)), End()]
    return Script(steps, finish=answer.finish, truth=Truth("recut", expected))


def _silent_first(ask: Ask) -> Script:
    return Script([Silence()])


def _silent_middle(ask: Ask) -> Script:
    return Script([*play(_half(ask), ask), Silence()])


def _comments_only(ask: Ask) -> Script:
    return Script([*play(_half(ask), ask), *(step for _ in range(600) for step in (Send(b": ping\n\n"), Wait(0.1)))])


FAULTS: dict[str, Callable[[Ask], Script]] = {
    "none": _ok,
    "loop": _loop,
    "loop_reasoning": _loop_reasoning,
    "loop_stop": _loop_stop,
    "early_stop": _early_stop,
    "empty": _empty,
    "max_tokens": _max_tokens,
    "broken_tool_call": _broken_tool_call,
    "http_429_once": _once(_http_429, "http_429_once"),
    "http_503_once": _once(_http_503, "http_503_once"),
    "reset_first_once": _once(_reset_first, "reset_first_once"),
    "http_429": _always(_http_429, "http_429", "http_error"),
    "http_500": _always(_http_500, "http_500", "http_error"),
    "context_400": _always(_context_400, "context_400", "http_error"),
    "reset_first": _always(_reset_first, "reset_first", "unreachable"),
    "close_first": _always(_close_first, "close_first", "unreachable"),
    "reset_middle": _always(_reset_middle, "reset_middle", "reset"),
    "close_middle": _always(_close_middle, "close_middle", "reset"),
    "error_event": _always(_error_event, "error_event", "error_event"),
    "named_error_event": _always(_named_error_event, "named_error_event", "error_event"),
    "no_finish": _always(_no_finish, "no_finish", "no_finish"),
    "no_finish_done": _always(_no_finish_done, "no_finish_done", "no_finish"),
    "malformed": _always(_malformed, "malformed", "malformed"),
    "silent_first": _always(_silent_first, "silent_first", "deadline_first_chunk", "deadline_turn"),
    "silent_middle": _always(_silent_middle, "silent_middle", "deadline_gap", "deadline_turn"),
    "comments_only": _always(_comments_only, "comments_only", "deadline_gap", "deadline_turn"),
    "reset_after_finish": _reset_after_finish,
    "no_done": _style("no_done", done=False),
    "no_usage": _style("no_usage", usage=False),
    "no_usage_no_done": _style("no_usage_no_done", ("no_end_marker",), usage=False, done=False),
    "crlf": _style("crlf", newline=b"\r\n"),
    "comments": _style("comments", comments=True),
    "one_token_chunks": _style("one_token_chunks", tokens_per_chunk=1),
    "big_chunks": _style("big_chunks", tokens_per_chunk=7),
    "reasoning_field": _style("reasoning_field", reasoning_field="reasoning"),
    "finish_with_text": _style("finish_with_text", finish_apart=False),
    "recut": _recut,
}

CLASS_FAULTS = ("loop", "loop_reasoning", "early_stop", "empty", "max_tokens", "broken_tool_call")
WIRE_FAULTS = ("reset_middle", "error_event", "no_finish", "malformed", "http_500", "reset_first")
HARMLESS = (
    "http_429_once",
    "http_503_once",
    "reset_first_once",
    "reset_after_finish",
    "no_done",
    "no_usage",
    "crlf",
    "comments",
    "recut",
    "reasoning_field",
    "finish_with_text",
)


def make(name: str, ask: Ask) -> Script:
    """Return the script of the fault called `name` for this request."""
    return FAULTS[name](ask)

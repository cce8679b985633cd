"""How the answer ended: by itself, at a limit, by the server's own guard, or by a failure."""

from collections.abc import Iterator
from typing import Literal

from soak.facts import Finding, Observation, Usage

Finish = Literal["stop", "tool_calls", "length", "repetition", "failed", "none"]

_NORMAL: dict[str, Finish] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "complete": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "repetition": "repetition",
}
# What engines and gateways say when they gave up, each word under the kind it is counted as: vLLM and SGLang (abort,
# error), Ollama (load, unload), Gemini behind a gateway (SAFETY, RECITATION, …), Bedrock, Cohere, DeepSeek, OpenRouter.
_FAILURES: dict[str, tuple[str, ...]] = {
    "finish_abort": ("abort", "aborted", "cancel", "cancelled", "canceled", "user_cancel", "interrupted"),
    "finish_timeout": ("timeout", "timed_out", "deadline_exceeded"),
    "finish_overload": ("load", "unload", "overload", "overloaded", "insufficient_system_resource", "rate_limit"),
    "finish_error": (
        "error", "failed", "failure", "internal_error", "server_error", "network_error", "error_limit",
        "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls",
    ),
    "finish_content_filter": (
        "content_filter", "content_filtered", "safety", "image_safety", "recitation", "blocklist", "prohibited_content",
        "spii", "language", "guardrail_intervened", "refusal", "sensitive", "error_toxic",
    ),
}  # fmt: skip
_FAILED = {word: kind for kind, words in _FAILURES.items() for word in words}
_WORD_CHARS = 60
_FINISHED = ("complete", "no_end_marker")
_SENTENCES = {
    "no_finish": "the stream ended without a finish reason",
    "reset": "the connection broke before a finish reason",
    "error_event": "the server sent an error inside the stream",
    "malformed": "the stream held something that is not a chat completion chunk",
    "http_error": "the server answered with an HTTP error",
    "unreachable": "the server could not be reached",
    "deadline_first_chunk": "nothing arrived before the first-chunk deadline",
    "deadline_gap": "the stream fell silent for longer than the gap deadline",
    "deadline_turn": "the turn took longer than its deadline",
    "too_large": "the answer passed the limit on bytes",
}


def finish_of(observation: Observation) -> Finish:
    """Return the finish reason, in whatever case, in one of six meanings; an unknown word counts as a normal stop."""
    if isinstance(observation.stop_reason, str) and "repetition" in observation.stop_reason:
        return "repetition"
    if observation.finish_reason is None:
        return "none"
    word = _word(observation.finish_reason)
    return "failed" if word in _FAILED else _NORMAL.get(word, "stop")


def ended_by_itself(observation: Observation) -> bool:
    """Whether the model ended the answer, and neither a limit nor a failure nor a guard did."""
    return observation.ending in _FINISHED and finish_of(observation) in ("stop", "tool_calls")


def ending_problems(observation: Observation) -> list[Finding]:
    """Return the finding of kind `error` family for a stream that did not end as it should; empty if it did."""
    if observation.ending in ("cut", "aborted"):
        return []
    if observation.ending not in _FINISHED:
        detail = f": {observation.error}" if observation.error else ""
        return [_finding(observation.ending, _SENTENCES[observation.ending] + detail[:200], observation)]
    finish = finish_of(observation)
    if finish == "none":
        return [_finding("no_finish", _SENTENCES["no_finish"], observation)]
    if finish == "failed":
        word = _word(observation.finish_reason or "")
        return [_finding(_FAILED[word], f"the server ended the answer with finish reason {word!r}", observation)]
    if finish == "tool_calls" and not observation.tool_calls:
        return [_finding("tool_calls_missing", "finish reason tool_calls, but there is no tool call", observation)]
    return []


def finish_defects(observation: Observation) -> list[Finding]:
    """Return a note for a finish reason that nobody knows: the answer is judged as if it had ended with `stop`."""
    word = _word(observation.finish_reason or "stop")
    if word in _NORMAL or word in _FAILED or finish_of(observation) == "repetition":
        return []
    text = f"the finish reason {word[:_WORD_CHARS]!r} is not known; judged as if it were 'stop'"
    return [_finding("unknown_finish_reason", text, observation)]


def usage_defects(observation: Observation) -> list[Finding]:
    """Return findings for token counts that cannot be true; they do not decide the class."""
    usage = observation.usage
    if usage is None:
        return []
    return [_finding(kind, text, observation) for kind, text in _untrue(usage, observation)]


def _untrue(usage: Usage, observation: Observation) -> Iterator[tuple[str, str]]:
    chars = len(observation.content) + len(observation.reasoning)
    limit = observation.max_tokens
    if usage.completion == 0 and chars > 16:
        yield "usage_zero", f"usage says 0 tokens for {chars} characters"
    if _above(usage.reasoning, usage.completion):
        yield "usage_reasoning", f"usage says {usage.reasoning} reasoning tokens of {usage.completion} in all"
    # An observation without a limit holds 0.
    if limit and _above(usage.completion, limit):
        yield "usage_above_limit", f"usage says {usage.completion} tokens where at most {limit} were asked for"
    if _above(usage.cached, usage.prompt):
        yield "usage_cached", f"usage says {usage.cached} cached tokens of a prompt of {usage.prompt}"


def _above(part: int | None, whole: int | None) -> bool:
    return part is not None and whole is not None and part > whole


def _word(reason: str) -> str:
    """Return a finish reason as the tables here spell it."""
    return reason.strip().lower()


def _finding(kind: str, text: str, observation: Observation) -> Finding:
    return Finding(kind=kind, onset_char=len(observation.content), covered=0.0, confidence=0.99, text=text)

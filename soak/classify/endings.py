"""How the answer ended: by itself, at a limit, by the server's own guard, or by a failure."""

from typing import Literal

from soak.facts import Finding, Observation

Finish = Literal["stop", "tool_calls", "length", "repetition", "failed", "none"]

_FINISH: dict[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "repetition": "repetition",
    "abort": "failed",
    "aborted": "failed",
    "cancelled": "failed",
    "error": "failed",
    "content_filter": "failed",
}
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
    """Return the finish reason in one of six meanings; an unknown word counts as a normal stop."""
    if isinstance(observation.stop_reason, str) and "repetition" in observation.stop_reason:
        return "repetition"
    if observation.finish_reason is None:
        return "none"
    return _FINISH.get(observation.finish_reason.lower(), "stop")


def ended_by_itself(observation: Observation) -> bool:
    """Whether the model ended the answer, and neither a limit nor a failure nor a guard did."""
    return observation.ending in _FINISHED and finish_of(observation) in ("stop", "tool_calls")


def ending_problems(observation: Observation) -> list[Finding]:
    """Return the finding of kind `error` family for a stream that did not end as it should; empty if it did."""
    if observation.ending == "cut":
        return []
    if observation.ending not in _FINISHED:
        detail = f": {observation.error}" if observation.error else ""
        return [_finding(observation.ending, _SENTENCES[observation.ending] + detail[:200], observation)]
    finish = finish_of(observation)
    if finish == "none":
        return [_finding("no_finish", _SENTENCES["no_finish"], observation)]
    if finish == "failed":
        reason = str(observation.finish_reason).lower()
        return [_finding(f"finish_{reason}", f"the server ended the answer with finish reason {reason!r}", observation)]
    if finish == "tool_calls" and not observation.tool_calls:
        return [_finding("tool_calls_missing", "finish reason tool_calls, but there is no tool call", observation)]
    return []


def usage_defects(observation: Observation) -> list[Finding]:
    """Return findings for token counts that cannot be true; they do not decide the class."""
    usage = observation.usage
    if usage is None or usage.completion is None:
        return []
    chars = len(observation.content) + len(observation.reasoning)
    if usage.completion == 0 and chars > 16:
        return [_finding("usage_zero", f"usage says 0 tokens for {chars} characters", observation)]
    if usage.reasoning is not None and usage.reasoning > usage.completion:
        text = f"usage says {usage.reasoning} reasoning tokens of {usage.completion} in all"
        return [_finding("usage_reasoning", text, observation)]
    return []


def _finding(kind: str, text: str, observation: Observation) -> Finding:
    return Finding(kind=kind, onset_char=len(observation.content), covered=0.0, confidence=0.99, text=text)

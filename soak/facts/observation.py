"""What came back for one turn: folded from chunks, attempts, usage and ending. Never changed after it is made."""

from typing import Literal

import msgspec

from soak.facts.episode import ToolCall
from soak.facts.key import TurnKey

Ending = Literal[
    "complete",  # finish reason and end marker (or usage) arrived
    "no_end_marker",  # finish reason arrived, [DONE] did not: a complete answer with a protocol defect
    "no_finish",  # the stream ended cleanly without a finish reason
    "reset",  # the connection broke after the answer began and before a finish reason
    "error_event",  # the server sent an error inside the stream
    "malformed",  # a data line that is not JSON, or not a chat completion chunk
    "http_error",  # the last attempt was answered with an HTTP error status
    "unreachable",  # no attempt could connect, or all were reset before the first chunk
    "deadline_first_chunk",
    "deadline_gap",
    "deadline_turn",
    "cut",  # the guard closed the stream on a signal
    "aborted",  # we closed the stream because the plan says so
    "too_large",  # the answer passed our limit on bytes
]


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    One HTTP exchange: `status` is None if no answer came; `wait_s` is the pause made before the next attempt.

    `taken` is False where not even a connection came about: then the server knows nothing of the request.
    """

    started_at: float
    took_ms: float
    status: int | None = None
    error: str | None = None
    wait_s: float = 0.0
    taken: bool = True


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Token counts as the server reported them; None means it did not say."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    reasoning: int | None = None


class Drafted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """
    What became of one request's drafts, as the server told it with the answer; None where it did not say.

    `per_position[i]`: drafts whose token at position i was accepted. Sums of the whole request, the drafts of attempts
    that were broken off not among them.
    """

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    per_position: tuple[int, ...] | None = None


class Logprob(msgspec.Struct, frozen=True, kw_only=True):
    """The log probability (nats) of one sampled token, with the alternatives asked for."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What came back for the turn `key`.

    `ttft_ms`, `e2e_ms` count from the sending of the last attempt; `e2e_ms` is a lower bound if `censored`.
    `tpot_ms` is (e2e − ttft)/(output tokens − 1), None below two tokens. `usage` is None if the server sent none.
    `max_gap_ms` is the longest pause between two chunks with text; `loop_lag_ms` how late our own event loop ran.
    `defects` names protocol defects that did not end the answer (for example "no_usage"). `drafted` is None where the
    server does not tell acceptance request by request.
    """

    key: TurnKey
    started_at: float
    ending: Ending
    max_tokens: int
    clamped: bool = False
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    refusal: str | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    usage: Usage | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[Logprob, ...] | None = None
    attempts: tuple[Attempt, ...] = ()
    error: str | None = None
    defects: tuple[str, ...] = ()
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    max_gap_ms: float | None = None
    chunks: int = 0
    loop_lag_ms: float = 0.0
    censored: bool = False
    request_id: str | None = None
    model: str | None = None
    drafted: Drafted | None = None

    @property
    def output_tokens(self) -> int | None:
        """Generated tokens: what usage says, else the number of token ids, else None."""
        if self.usage is not None and self.usage.completion is not None:
            return self.usage.completion
        return len(self.token_ids) if self.token_ids is not None else None

    @property
    def tpot_ms(self) -> float | None:
        """(e2e − ttft)/(output tokens − 1) in milliseconds; None where a part is unknown or tokens are below two."""
        return time_per_token_ms(self.output_tokens, self.ttft_ms, self.e2e_ms)


class ObservationOutline(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    What counting needs of an observation, and nothing of what was generated: read from the same JSON, ten times faster.

    `token_ids` stays undecoded: they are counted where the server reported no usage.
    """

    started_at: float
    ending: Ending
    clamped: bool = False
    usage: Usage | None = None
    token_ids: msgspec.Raw = msgspec.Raw(b"null")
    attempts: tuple[Attempt, ...] = ()
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    loop_lag_ms: float = 0.0
    censored: bool = False
    drafted: Drafted | None = None

    @property
    def output_tokens(self) -> int | None:
        """Generated tokens, as `Observation.output_tokens`."""
        if self.usage is not None and self.usage.completion is not None:
            return self.usage.completion
        ids = msgspec.json.decode(self.token_ids, type=tuple[int, ...] | None)
        return None if ids is None else len(ids)

    @property
    def tpot_ms(self) -> float | None:
        """Time per token, as `Observation.tpot_ms`."""
        return time_per_token_ms(self.output_tokens, self.ttft_ms, self.e2e_ms)


def time_per_token_ms(tokens: int | None, ttft_ms: float | None, e2e_ms: float | None) -> float | None:
    """Return (e2e − ttft)/(tokens − 1) in milliseconds; None where a part is unknown or tokens are below two."""
    if tokens is None or tokens < 2 or ttft_ms is None or e2e_ms is None:
        return None
    return (e2e_ms - ttft_ms) / (tokens - 1)

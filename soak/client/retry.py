"""Attempts: how often and after which pause a turn is sent again. Only before anything of an answer has come."""

from collections.abc import Awaitable, Callable

import msgspec
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_result,
    wait_exponential,
    wait_random,
)

from soak.client.attempt import Stream
from soak.client.meter import Meter
from soak.facts import Attempt, Retries

_FIRST_PAUSE_S = 0.25


async def attempts_of(
    send: Callable[[], Awaitable[Stream]], retries: Retries, meter: Meter | None = None
) -> tuple[Stream, tuple[Attempt, ...]]:
    """
    Send until it is answered or the attempts are used up; return the last stream and the record of each attempt.

    Pauses are what the server asked for (Retry-After), else double from 0.25 s with jitter, at most `wait_max_s`.
    `meter` counts each attempt, and may end them early; raises its `UsageError` where not even the first may be sent.
    """
    records: list[Attempt] = []
    if meter is not None:
        meter.send()

    async def one() -> Stream:
        stream = await send()
        records.append(stream.attempt())
        return stream

    def note_pause(state: RetryCallState) -> None:
        pause = state.next_action.sleep if state.next_action else 0.0
        records[-1] = msgspec.structs.replace(records[-1], wait_s=float(pause))

    retrying = AsyncRetrying(
        stop=lambda state: state.attempt_number >= retries.attempts or (meter is not None and not meter.again()),
        wait=lambda state: _pause(state, retries.wait_max_s),
        retry=retry_if_result(lambda stream: stream.retriable),
        before_sleep=note_pause,
        retry_error_callback=lambda state: _result(state),
    )
    stream: Stream = await retrying(one)
    return stream, tuple(records)


def _result(state: RetryCallState) -> Stream:
    assert state.outcome is not None  # set before this is called
    stream: Stream = state.outcome.result()
    return stream


def _pause(state: RetryCallState, most_s: float) -> float:
    asked = _result(state).pause_s
    if asked is not None:
        return min(asked, most_s)
    first = min(_FIRST_PAUSE_S, most_s)
    pause = wait_exponential(multiplier=first, max=most_s) + wait_random(0, first)
    return float(min(pause(state), most_s))

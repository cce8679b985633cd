"""Taking samples through a run: one at the start, one every few seconds, one at the end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from soak.facts import EngineSample
from soak.scrape.metrics import MAX_PAGE_CHARS, parse_metrics


@dataclass(kw_only=True)
class Poll:
    """What polling came to: samples written, fetches that gave none, and why the last of these gave none."""

    samples: int = 0
    failures: int = 0
    last_failure: str | None = None


async def poll(
    fetch: Callable[[], Awaitable[str | None]],
    write: Callable[[EngineSample], None],
    *,
    arm: str,
    every_s: float,
    wall_clock: Callable[[], float],
    stop: asyncio.Event,
    fetch_limit_s: float = 10.0,
    on_change: Callable[[str | None], None] = lambda _: None,
    answered: bool = False,
) -> Poll:
    """
    Write a sample of `arm` now, every `every_s` seconds, and once more when `stop` is set; then return the counts.

    `fetch` returns the page's text, or None if there is none. A fetch that fails in whatever way, or takes longer
    than `fetch_limit_s`, is counted and the next one tried: an engine that is down must not end the run. What
    `write` raises is passed on, and so is cancellation (then without a last sample).

    `on_change` is told once why no sample comes any more, where one came before (`answered`: before this call), and
    once None when they come again.
    """

    async def fetch_within() -> str | None:
        async with asyncio.timeout(fetch_limit_s):
            return await fetch()

    outcome, voice = Poll(), _Voice(on_change, answered=answered)
    while not stop.is_set():
        voice.hear(await _sample(fetch_within, write, outcome, arm=arm, wall_clock=wall_clock))
        try:
            await asyncio.wait_for(stop.wait(), every_s)
        except TimeoutError:
            continue
    voice.hear(await _sample(fetch_within, write, outcome, arm=arm, wall_clock=wall_clock))
    return outcome


class _Voice:
    """Whether the page answers, told where that changes; one that never answered has none to lose."""

    def __init__(self, on_change: Callable[[str | None], None], *, answered: bool) -> None:
        self._on_change = on_change
        self._answers: bool | None = answered or None

    def hear(self, failure: str | None) -> None:
        answers = failure is None
        if self._answers is not None and answers != self._answers:
            self._on_change(failure)
        if answers or self._answers is not None:
            self._answers = answers


async def _sample(
    fetch: Callable[[], Awaitable[str | None]],
    write: Callable[[EngineSample], None],
    outcome: Poll,
    *,
    arm: str,
    wall_clock: Callable[[], float],
) -> str | None:
    """Take one sample; return why there is none."""
    text, failure = await _fetched(fetch)
    if text is None:
        outcome.failures += 1
        outcome.last_failure = failure
        return failure
    # In a thread: a large page takes milliseconds that would show up as loop lag in the turns being timed.
    write(await asyncio.to_thread(parse_metrics, text, arm=arm, at=wall_clock()))
    outcome.samples += 1
    return None


async def _fetched(fetch: Callable[[], Awaitable[str | None]]) -> tuple[str | None, str]:
    """Return the page, or None and why there is none."""
    try:
        text = await fetch()
    except TimeoutError:
        return None, "no answer in time"
    except Exception as error:  # the edge to a foreign server: any failure is the same to us
        return None, f"{type(error).__name__}: {error}"[:500]
    if text is None:
        return None, "no metrics page"
    if len(text) > MAX_PAGE_CHARS:
        return None, f"the page is larger than {MAX_PAGE_CHARS} characters"
    return text, ""

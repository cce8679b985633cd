"""Taking samples through a run: one at the start, one every few seconds, one at the end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from soak.scrape.reader import Reader


@dataclass(kw_only=True)
class Poll:
    """What polling came to: samples written, fetches that gave none, and why the last of these gave none."""

    samples: int = 0
    failures: int = 0
    last_failure: str | None = None

    def count(self, failure: str | None) -> None:
        """Count one reading, or why there was none."""
        if failure is None:
            self.samples += 1
        else:
            self.failures += 1
            self.last_failure = failure


async def poll(
    reader: Reader,
    *,
    every_s: float,
    stop: asyncio.Event,
    on_change: Callable[[str | None], None] = lambda _: None,
    answered: bool = False,
) -> Poll:
    """
    Have `reader` take a sample now, every `every_s` seconds, and once more when `stop` is set; then return the counts.

    A reading that fails in whatever way is counted and the next one tried: an engine that is down must not end the
    run. What the reader's `write` raises is passed on, and so is cancellation (then without a last sample).

    `on_change` is told once why no sample comes any more, where one came before (`answered`: before this call), and
    once None when they come again.
    """
    outcome, voice = Poll(), _Voice(on_change, answered=answered)

    async def take() -> None:
        failure = await reader.read()
        outcome.count(failure)
        voice.hear(failure)

    while not stop.is_set():
        await take()
        try:
            await asyncio.wait_for(stop.wait(), every_s)
        except TimeoutError:
            continue
    await take()
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

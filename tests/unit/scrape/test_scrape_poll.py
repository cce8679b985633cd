"""Taking samples through a run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest

from soak.errors import RunFolderError
from soak.facts import EngineSample
from soak.scrape import MAX_PAGE_CHARS, Poll, Reader, poll

Fetch = Callable[[], Awaitable[str | None]]


class Engine:
    """A page whose counter grows by one per fetch; sets `stop` at the fetch with number `last`."""

    def __init__(self, stop: asyncio.Event, last: int, broken: Callable[[int], str | None] = lambda n: "") -> None:
        self._numbers: Iterator[int] = count(1)
        self._stop = stop
        self._last = last
        self._broken = broken

    async def fetch(self) -> str | None:
        number = next(self._numbers)
        if number == self._last:
            self._stop.set()
        broken = self._broken(number)
        return f"vllm:prompt_tokens_total {number}\n" if broken == "" else broken


async def polled(
    fetch: Fetch, write: Callable[[EngineSample], None], stop: asyncio.Event, every_s: float, **limit: float
) -> Poll:
    clock = count(100)
    reader = Reader(fetch, write, arm="a", wall_clock=lambda: float(next(clock)), **limit)
    return await asyncio.wait_for(poll(reader, every_s=every_s, stop=stop), 30)


async def test_samples_at_the_start_in_between_and_at_the_end() -> None:
    """Samples are taken at once, again and again, and once more after stop, with the times of asking and answer."""
    stop, samples = asyncio.Event(), list[EngineSample]()
    outcome = await polled(Engine(stop, 4).fetch, samples.append, stop, 0.001)
    assert [sample.prompt_tokens for sample in samples] == [1, 2, 3, 4, 5]
    assert [(sample.asked_at, sample.at) for sample in samples] == [(at, at + 1) for at in range(100, 110, 2)]
    assert outcome == Poll(samples=5)


async def test_stop_is_heard_at_once_and_still_gives_the_last_sample() -> None:
    """Between two samples an hour apart, stop ends polling without waiting, with one more sample."""
    stop, samples = asyncio.Event(), list[EngineSample]()

    def write(sample: EngineSample) -> None:
        samples.append(sample)
        stop.set()

    await polled(Engine(asyncio.Event(), 0).fetch, write, stop, 3600)
    assert len(samples) == 2


async def test_stopped_before_it_began_takes_one_sample() -> None:
    """A run that is over at once still has a sample of its end."""
    stop, samples = asyncio.Event(), list[EngineSample]()
    stop.set()
    await polled(Engine(stop, 0).fetch, samples.append, stop, 3600)
    assert len(samples) == 1


async def test_failing_fetches_are_counted_and_polling_goes_on() -> None:
    """A fetch that raises or has no page costs its sample only; the last reason is kept."""

    def broken(number: int) -> str | None:
        if number == 2:
            raise ConnectionRefusedError("refused")
        return None if number == 3 else ""

    stop, samples = asyncio.Event(), list[EngineSample]()
    outcome = await polled(Engine(stop, 5, broken).fetch, samples.append, stop, 0.001)
    assert [sample.prompt_tokens for sample in samples] == [1, 4, 5, 6]
    assert (outcome.samples, outcome.failures, outcome.last_failure) == (4, 2, "no metrics page")


async def heard(pattern: str) -> list[str | None]:
    """What is told of a page that gives a reading (`+`) or none (`-`) as `pattern` says."""
    stop, told = asyncio.Event(), list[str | None]()
    engine = Engine(stop, len(pattern) - 1, lambda n: "" if pattern[n - 1] == "+" else None)
    clock = count(100)
    reader = Reader(engine.fetch, lambda _: None, arm="a", wall_clock=lambda: float(next(clock)))
    await poll(reader, every_s=0.001, stop=stop, on_change=told.append)
    return told


async def test_a_page_that_falls_silent_is_told_once_and_its_return_once() -> None:
    """The reason comes with the first reading that is missed, None with the first that is back; a last one counts."""
    assert await heard("++---++") == ["no metrics page", None]
    assert await heard("+++-") == ["no metrics page"]


async def test_a_page_that_was_never_there_is_no_news() -> None:
    """Where no reading ever came there is nothing to fall silent; one that comes late is no return."""
    assert await heard("----") == []
    assert await heard("--++") == []


async def test_a_fetch_that_hangs_is_given_up() -> None:
    """An engine that accepts and never answers costs one fetch limit, also for the last sample."""
    stop, samples = asyncio.Event(), list[EngineSample]()
    stop.set()

    async def hang() -> str | None:
        await asyncio.Event().wait()
        return None

    outcome = await polled(hang, samples.append, stop, 3600, fetch_limit_s=0.01)
    assert (samples, outcome) == ([], Poll(failures=1, last_failure="no answer in time"))


async def test_a_page_that_is_too_large_is_a_failure_with_its_reason() -> None:
    """A page above the limit is counted as a failure and not written as an empty sample."""
    stop, samples = asyncio.Event(), list[EngineSample]()
    stop.set()
    outcome = await polled(Engine(stop, 0, lambda n: "#" * (MAX_PAGE_CHARS + 1)).fetch, samples.append, stop, 1)
    assert samples == []
    assert outcome.last_failure is not None
    assert "larger than" in outcome.last_failure


async def test_what_the_history_raises_is_not_swallowed() -> None:
    """A history that cannot be written ends polling with its error."""

    def write(sample: EngineSample) -> None:
        raise RunFolderError("full", why="disk", hint="space")

    with pytest.raises(RunFolderError):
        await polled(Engine(asyncio.Event(), 0).fetch, write, asyncio.Event(), 1)

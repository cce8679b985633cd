"""Readings around turns that are alone in flight."""

import asyncio
from itertools import count, pairwise

import pytest

from soak.facts import EngineSample
from soak.scrape import Crowd, LoneTurns, Reader


class Page:
    """A page that counts what was asked of it; while `open` is not set, it keeps who asks waiting."""

    def __init__(self) -> None:
        self.samples: list[EngineSample] = []
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()
        self._clock = count(0)

    async def fetch(self) -> str | None:
        self.asked += 1
        await self.open.wait()
        return f"vllm:prompt_tokens_total {self.asked}\n"

    def reader(self) -> Reader:
        return Reader(self.fetch, self.samples.append, arm="a", wall_clock=lambda: float(next(self._clock)))


async def settled(lone: LoneTurns) -> None:
    """Wait until no reading is under way."""
    while lone._reading is not None:
        await asyncio.wait((lone._reading,))
        await asyncio.sleep(0)


async def test_a_lone_turn_is_read_before_and_after() -> None:
    """The turn is sent after the first reading has come, and the second is asked for when it has ended."""
    page = Page()
    lone = LoneTurns(page.reader(), Crowd())
    async with lone.around():
        assert len(page.samples) == 1
    await settled(lone)
    assert len(page.samples) == 2


async def test_turns_one_after_the_other_cost_a_reading_each() -> None:
    """The reading after a turn is the one before the next, whether that comes at once or later."""
    page = Page()
    lone = LoneTurns(page.reader(), Crowd())
    for pause in (False, True, False, True):
        async with lone.around():
            pass
        if pause:
            await settled(lone)
    await settled(lone)
    assert len(page.samples) == 5


async def test_turns_in_company_are_not_read_around() -> None:
    """Whoever comes while another is in flight waits for nothing and asks for nothing; nor does the other any more."""
    page = Page()
    crowd = Crowd()
    one, other = LoneTurns(page.reader(), crowd), LoneTurns(page.reader(), crowd)
    async with one.around():
        async with other.around():
            assert page.asked == 1
        await settled(other)
    await settled(one)
    assert page.asked == 1
    assert crowd.in_flight == 0


async def test_a_page_that_does_not_come_holds_a_turn_back_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn goes after the longest wait, others do not wait at all, and in the end turns go without readings."""
    monkeypatch.setattr("soak.scrape.lone.LONGEST_WAIT_S", 0.02)
    monkeypatch.setattr("soak.scrape.lone.ALLOWANCE_S", 0.01)
    monkeypatch.setattr("soak.scrape.lone.SHARE_OF_TIME", 0.0)
    page = Page()
    page.open.clear()
    lone = LoneTurns(page.reader(), Crowd())
    for _ in range(3):
        async with lone.around():
            pass
    assert page.asked == 1
    await lone.close()
    assert page.samples == []


async def test_a_failing_page_harms_no_turn() -> None:
    """Neither a page nor a history that fails stops a turn from being sent, or hides how the turn itself failed."""

    async def broken() -> str | None:
        raise ConnectionRefusedError

    def full(sample: EngineSample) -> None:
        raise OSError("no space")

    for reader in (
        Reader(broken, lambda _: None, arm="a", wall_clock=lambda: 0.0),
        Reader(Page().fetch, full, arm="a", wall_clock=lambda: 0.0),
    ):
        lone = LoneTurns(reader, Crowd())
        with pytest.raises(ZeroDivisionError):
            async with lone.around():
                raise ZeroDivisionError
        await lone.close()


async def test_readings_never_overtake_each_other() -> None:
    """Two that ask at the same time are served one after the other: no page is written behind a newer one."""
    page = Page()
    reader = page.reader()
    await asyncio.gather(*(reader.read() for _ in range(5)))
    assert [sample.prompt_tokens for sample in page.samples] == [1, 2, 3, 4, 5]
    assert all(before.at <= (after.asked_at or 0.0) for before, after in pairwise(page.samples))

"""One arm's metrics page, read one reading at a time."""

import asyncio
from collections.abc import Awaitable, Callable

from soak.facts import EngineSample
from soak.scrape.metrics import MAX_PAGE_CHARS, parse_metrics


class Reader:
    """
    Reads the metrics page of `arm`: `fetch` returns its text or None, `write` takes each sample.

    However many ask at once, readings are taken one after the other and written in the order they were taken: two
    pages that overtook each other would look like a counter that fell, which means a restart.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[str | None]],
        write: Callable[[EngineSample], None],
        *,
        arm: str,
        wall_clock: Callable[[], float],
        fetch_limit_s: float = 10.0,
    ) -> None:
        self._fetch = fetch
        self._write = write
        self._arm = arm
        self._wall_clock = wall_clock
        self._fetch_limit_s = fetch_limit_s
        self._one_at_a_time = asyncio.Lock()

    async def read(self) -> str | None:
        """Take and write one sample; return why there is none. What `write` raises is passed on."""
        async with self._one_at_a_time:
            asked_at = self._wall_clock()
            text, failure = await self._fetched()
            if text is None:
                return failure
            at = self._wall_clock()
            # In a thread: a large page takes milliseconds that would show up as loop lag in the turns being timed.
            self._write(await asyncio.to_thread(parse_metrics, text, arm=self._arm, at=at, asked_at=asked_at))
            return None

    async def _fetched(self) -> tuple[str | None, str]:
        """Return the page, or None and why there is none."""
        try:
            async with asyncio.timeout(self._fetch_limit_s):
                text = await self._fetch()
        except TimeoutError:
            return None, "no answer in time"
        except Exception as error:  # the edge to a foreign server: any failure is the same to us
            return None, f"{type(error).__name__}: {error}"[:500]
        if text is None:
            return None, "no metrics page"
        if len(text) > MAX_PAGE_CHARS:
            return None, f"the page is larger than {MAX_PAGE_CHARS} characters"
        return text, ""

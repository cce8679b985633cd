"""Two clocks with one interface: `now()` in seconds and `wait_until(moment)`."""

import time


class WallClock:
    """Real time."""

    def now(self):
        return time.monotonic()

    def wait_until(self, moment):
        time.sleep(max(0.0, moment - self.now()))


class JumpingClock:
    """Simulated time: waiting takes no time."""

    def __init__(self, start=0.0):
        self._now = start

    def now(self):
        return self._now

    def wait_until(self, moment):
        if moment < self._now:
            raise ValueError("time does not run backwards")
        self._now = moment

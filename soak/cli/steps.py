"""The steps before a run or a server is there: one line each, with its duration."""

from rich.console import Console
from rich.status import Status
from rich.text import Text

from soak.report import escape_terminal

SIGN_OF_LIFE_S = 60.0


class Pulse:
    """Whether a reader of lines is to be told of a step now: when it ends, and every minute while it goes on."""

    def __init__(self) -> None:
        self._told_s = 0.0

    def due(self, elapsed_s: float, *, ended: bool) -> bool:
        """Whether to tell now of the step that has gone on for `elapsed_s` seconds or has ended after them."""
        if ended or elapsed_s < self._told_s:  # the next step begins at zero
            self._told_s = 0.0
            return ended
        if elapsed_s - self._told_s < SIGN_OF_LIFE_S:
            return False
        self._told_s = elapsed_s
        return True


class StepView:
    """Prints each step when it has ended; until then a terminal shows a clock, anything else a rare sign of life."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pulse = Pulse()
        self._clock: Status | None = None

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """Show that a step goes on or has ended."""
        line = step_line(step, detail, elapsed_s, ended=ended)
        if ended:
            self.close()
        elif self._console.is_terminal:
            self._draw(line)
        if self._pulse.due(elapsed_s, ended=ended) and self._clock is None:
            self._console.print(line, markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the clock of a step that did not end from the terminal."""
        if self._clock is not None:
            self._clock.stop()
            self._clock = None

    def _draw(self, line: str) -> None:
        if self._clock is None:
            self._clock = Status(Text(line), console=self._console)
            self._clock.start()
        self._clock.update(Text(line))


def step_line(step: str, detail: str, elapsed_s: float, *, ended: bool) -> str:
    """Return what is shown of a step: `torch: torch==2.13.0+cpu, about 200 MB · 41 s`."""
    return f"{step}: {escape_terminal(detail)} {'·' if ended else '…'} {seconds(elapsed_s)}"


def seconds(elapsed_s: float) -> str:
    """Return `0.4 s`, `41 s`; tenths below ten seconds."""
    return f"{elapsed_s:.1f} s" if elapsed_s < 10 else f"{elapsed_s:.0f} s"

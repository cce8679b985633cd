"""The view on a terminal: a panel at its foot, findings above it."""

import time
from collections import Counter, deque

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from soak.app.audience import Opening
from soak.cli.board import Board, duration, finding_line, rounded
from soak.cli.steps import StepView
from soak.facts import CLASSES, EngineSample, Event, Record, Signal, TurnKey
from soak.report import escape_terminal

_RECENT = 6


class LiveView:
    """A panel at the foot of the terminal, drawn four times a second; findings scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._board = Board()
        self._recent: deque[Text] = deque(maxlen=_RECENT)
        self._live: Live | None = None
        self._steps = StepView(console)
        self._draining = False

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """Show a step of preparation; each step on a line of its own."""
        self._steps.preparing(step, detail, elapsed_s, ended=ended)

    def opening(self, opening: Opening) -> None:
        """Begin to draw."""
        self._board.open(opening)
        self._console.print(Text(f"run {opening.folder} · scenario {opening.scenario.name}"))
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def started(self, key: TurnKey) -> None:
        """Count a turn in flight."""
        self._board.in_flight[key] = time.monotonic()

    def signal(self, key: TurnKey, signal: Signal) -> None:
        """Show what was noticed in mid-stream, at once."""
        self._note(f"{key} noticed {signal.kind} at token {signal.at_token}: {escape_terminal(signal.text)}", "yellow")
        if self._live is not None:
            self._live.refresh()

    def ended(self, record: Record) -> None:
        """Count the end of a turn, and show it if it is not ok."""
        self._board.end(record)
        if (line := finding_line(record)) is not None:
            self._note(line, "red")

    def event(self, event: Event) -> None:
        """Show what happened to the run."""
        self._draining = self._draining or event.kind == "draining"
        self._note(f"{event.kind} {event.arm or ''} {escape_terminal(event.text)}", "cyan")

    def sample(self, sample: EngineSample) -> None:
        """Take an engine sample."""
        self._board.sample(sample)

    def closing(self) -> None:
        """Stop drawing; what was noted last stays on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            for line in self._recent:
                self._console.print(line)

    def restore(self) -> None:
        """Leave the terminal as it was, also where preparation failed and nothing opened."""
        self._steps.close()
        self.closing()

    def __rich__(self) -> Group:
        return Group(*self._recent, self._bar(), self._table())

    def _note(self, text: str, style: str) -> None:
        line = Text(text, style=style, no_wrap=True, overflow="ellipsis")
        if self._live is None:
            self._console.print(line)
        else:
            self._recent.append(line)

    def _bar(self) -> Table:
        share = self._board.share_done()
        row = Table.grid(padding=(0, 1))
        row.add_row(
            ProgressBar(total=1.0, completed=share or 0.0, width=30, pulse=share is None),
            f"{share:.0%}" if share is not None else "",
            f"{duration(self._board.elapsed_s)} gone,",
            "draining" if self._draining else f"{duration(self._board.eta_s())} left",
        )
        return row

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("arm", "in flight", *CLASSES, "skipped", "tok/s", "accept len"):
            table.add_column(name, justify="left" if name == "arm" else "right")
        opening = self._board.opening
        for card in opening.manifest.arms if opening else ():
            table.add_row(*self._row(card.name))
        return table

    def _row(self, arm: str) -> list[str]:
        counts = self._board.counts.get(arm, Counter())
        return [
            arm,
            str(sum(key.arm == arm for key in self._board.in_flight)),
            *(str(counts[name]) for name in (*CLASSES, "skipped")),
            str(rounded(self._board.tokens_per_s(arm)) or "-"),
            str(rounded(self._board.acceptance_length(arm)) or "-"),
        ]

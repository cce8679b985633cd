"""The view without a terminal: log lines, which also go to the run's own log file."""

import time

import structlog

from soak.app.audience import Opening
from soak.cli.board import Board, duration, finding_line, rounded
from soak.cli.logs import LogSink
from soak.cli.steps import Pulse, seconds
from soak.facts import CLASSES, EngineSample, Event, Record, Signal, TurnKey
from soak.report import escape_terminal


class LineView:
    """Log lines: each turn that is not ok, each event, and the counts every `every_s` seconds."""

    def __init__(self, sink: LogSink, every_s: float = 15.0) -> None:
        self._sink = sink
        self._log = structlog.get_logger()
        self._board = Board()
        self._every_s = every_s
        self._next = 0.0
        self._pulse = Pulse()

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """Log a step of preparation when it has ended, and now and then that it goes on."""
        if self._pulse.due(elapsed_s, ended=ended):
            self._log.info(step, detail=escape_terminal(detail), **{"took" if ended else "so_far": seconds(elapsed_s)})

    def opening(self, opening: Opening) -> None:
        """Log what begins; from here on the lines also go to the run's own log."""
        self._sink.attach(opening.folder / "soak.log")
        self._board.open(opening)
        self._next = time.monotonic() + self._every_s
        planned = "planned_tasks" if opening.scenario.replay == "agent" else "planned_turns"
        self._log.info(
            "run begins",
            run=str(opening.folder),
            scenario=opening.scenario.name,
            arms=[card.name for card in opening.manifest.arms],
            **({} if opening.planned_turns is None else {planned: opening.planned_turns}),
        )

    def started(self, key: TurnKey) -> None:
        """Count a turn in flight."""
        self._board.in_flight[key] = time.monotonic()

    def signal(self, key: TurnKey, signal: Signal) -> None:
        """Log what was noticed in mid-stream."""
        self._log.warning(
            "noticed", turn=str(key), what=signal.kind, at_token=signal.at_token, text=escape_terminal(signal.text)
        )

    def ended(self, record: Record) -> None:
        """Log a turn that is not ok, and now and then the counts."""
        self._board.end(record)
        if (line := finding_line(record)) is not None:
            self._log.warning("turn", text=line)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every_s
            self._progress()

    def event(self, event: Event) -> None:
        """Log what happened to the run."""
        whose = {} if event.arm is None else {"arm": event.arm}
        self._log.info(event.kind, **whose, text=escape_terminal(event.text))

    def sample(self, sample: EngineSample) -> None:
        """Take an engine sample."""
        self._board.sample(sample)

    def closing(self) -> None:
        """Log the last counts."""
        self._progress()

    def _progress(self) -> None:
        share = self._board.share_done()
        for arm, counts in self._board.counts.items():
            self._log.info(
                "progress",
                arm=arm,
                done=f"{share:.0%}" if share is not None else None,
                left=duration(self._board.eta_s()),
                in_flight=sum(key.arm == arm for key in self._board.in_flight),
                tokens_per_s=rounded(self._board.tokens_per_s(arm)),
                acceptance_length=rounded(self._board.acceptance_length(arm)),
                **{name: counts[name] for name in (*CLASSES, "skipped", "indeterminate", "aborted") if counts[name]},
            )

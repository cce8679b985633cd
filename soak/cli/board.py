"""What has happened so far in a run, in numbers: shared by the live view and the log lines."""

import time
from collections import Counter, deque

from soak.app.audience import Opening
from soak.check import deltas
from soak.facts import EngineSample, Record, TurnKey
from soak.report import escape_terminal

_RATE_WINDOW_S = 60.0


class Board:
    """What has happened so far, in numbers; fed by either view."""

    def __init__(self) -> None:
        self.opening: Opening | None = None
        self.began = time.monotonic()
        self.counts: dict[str, Counter[str]] = {}
        self.in_flight: dict[TurnKey, float] = {}
        self.samples: dict[str, list[EngineSample]] = {}
        self._ended: deque[tuple[float, int]] = deque(maxlen=4096)

    def open(self, opening: Opening) -> None:
        """The run begins."""
        self.opening = opening
        self.began = time.monotonic()

    def end(self, record: Record) -> None:
        """Count the end of a turn."""
        self.in_flight.pop(record.key, None)
        counts = self.counts.setdefault(record.key.arm, Counter())
        if record.judgement is None or record.observation is None:
            counts[record.outcome] += 1
            return
        counts["finished"] += 1
        counts[record.judgement.class_] += 1
        self._ended.append((time.monotonic(), record.observation.output_tokens or 0))

    def sample(self, sample: EngineSample) -> None:
        """Keep the first and the latest few readings of an arm."""
        kept = self.samples.setdefault(sample.arm, [])
        kept.append(sample)
        if len(kept) > 64:
            del kept[1]

    @property
    def elapsed_s(self) -> float:
        """Seconds of the budget used."""
        return time.monotonic() - self.began + (self.opening.used_s if self.opening else 0.0)

    @property
    def ended(self) -> int:
        """Turns that need no more work, earlier sittings included."""
        counted = sum(counts["finished"] + counts["skipped"] + counts["aborted"] for counts in self.counts.values())
        return counted + (self.opening.done if self.opening else 0)

    def share_done(self) -> float | None:
        """Return the share of the budget that is used up, 0 to 1; None while unknown."""
        if self.opening is None:
            return None
        budget = self.opening.scenario.budget
        limit_s = (budget.hours or 0) * 3600 + (budget.minutes or 0) * 60
        if limit_s:
            return min(1.0, self.elapsed_s / limit_s)
        planned = self.opening.planned_turns
        return min(1.0, self.ended / planned) if planned else None

    def eta_s(self) -> float | None:
        """Return the seconds left at the pace so far; None while unknown."""
        share = self.share_done()
        return self.elapsed_s * (1 - share) / share if share else None

    def tokens_per_s(self, arm: str | None = None) -> float | None:
        """Return generated tokens per second: from the engine's counter if it has one, else from turns that ended."""
        if arm is not None and (kept := self.samples.get(arm, ())) and len(kept) > 1:
            recent = [sample for sample in kept if sample.at >= kept[-1].at - _RATE_WINDOW_S]
            tokens, span = deltas(recent).generation_tokens, recent[-1].at - recent[0].at
            if tokens is not None and span > 0:
                return tokens / span
        now = time.monotonic()
        window = [(at, tokens) for at, tokens in self._ended if at > now - _RATE_WINDOW_S]
        return sum(tokens for _, tokens in window) / min(_RATE_WINDOW_S, now - self.began) if window else None

    def acceptance_length(self, arm: str) -> float | None:
        """Return 1 + accepted/drafts since the run began."""
        delta = deltas(self.samples.get(arm, []))
        return 1 + delta.accepted_tokens / delta.drafts if delta.drafts and delta.accepted_tokens is not None else None


def finding_line(record: Record) -> str | None:
    """Return one line about a turn worth looking at, safe to print; None for one that is ok or met its cap."""
    if record.judgement is None:
        return (
            f"{record.key} {record.outcome}: {escape_terminal(record.reason or '')}"
            if record.outcome not in ("skipped", "aborted")
            else None
        )
    if record.judgement.class_ in ("ok", "max_tokens"):
        return None  # the counts tell how many; each one on a line of its own would hide the turns to look at
    return f"{record.key} {record.judgement.class_}: {escape_terminal(record.judgement.reason)}"


def duration(seconds: float | None) -> str:
    """Return `1:02:03`, or `-` for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def rounded(value: float | None) -> float | None:
    """Return `value` with two decimals."""
    return None if value is None else round(value, 2)

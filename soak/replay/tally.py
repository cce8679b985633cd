"""Running counts of one run, arm by arm: what the live view shows and what `stop_if` looks at."""

from collections import Counter

from soak.facts import Record


class Tally:
    """Counts ends as they come; `skipped` and `indeterminate` stand beside the five classes, and so does `aborted`."""

    def __init__(self) -> None:
        self.by_arm: dict[str, Counter[str]] = {}

    def add(self, record: Record) -> None:
        """Count one end."""
        counts = self.by_arm.setdefault(record.key.arm, Counter())
        if record.outcome == "finished" and record.judgement is not None:
            counts["finished"] += 1
            counts[record.judgement.class_] += 1
        else:
            counts[record.outcome] += 1

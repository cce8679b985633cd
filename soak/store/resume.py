"""Going on after a break: what was in flight is closed, and offered again."""

from soak.facts import Record, TurnKey
from soak.store.writer import HistoryWriter


def close_open_starts(writer: HistoryWriter, at: float, reason: str) -> tuple[TurnKey, ...]:
    """End every turn that was started and has no end as `indeterminate` at `at` (UTC epoch s); return their keys."""
    keys = writer.open_starts
    for key in keys:
        writer.finish(Record(key=key, outcome="indeterminate", at=at, reason=reason))
    return keys

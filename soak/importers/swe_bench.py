"""
Rows of SWE-bench and its like: tasks (a repository, a problem statement, tests), which hold no conversation.

They are what `replay: agent` works on. An import knows them so that it can say so.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.tally import Tally
from soak.importers.values import listing, mapping

TASK = "a SWE-bench task, which holds no conversation: it is for a scenario with replay: agent"


def recognises(value: Any) -> bool:
    """Return whether `value` is a task or a list of them."""
    row = mapping(value[0] if isinstance(value, list) and value else value)
    has_messages = any(row.get(name) for name in ("messages", "trajectory", "history", "conversations"))
    return {"instance_id", "problem_statement"} <= row.keys() and not has_messages


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield nothing; count the tasks."""
    for entry in entries:
        for _ in listing(entry.value) or [entry.value]:
            tally.drop(TASK)
    yield from ()


FORMAT = Format(name="swe-bench", recognises=recognises, read=read)

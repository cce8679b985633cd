"""
tau-bench results: a list of `{task_id, reward, info, traj, trial}` whose `traj` are OpenAI messages.

The user is simulated; its last message is mostly `###STOP###`, a marker that was never sent: dropped. Model, sampling
and tool schemas are not in the file.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode, text_of
from soak.importers.assembly import assemble
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.tally import Tally
from soak.importers.values import listing, mapping, name_of, number

STOP = "###STOP###"
STOPPED = "the user's stop marker"


def recognises(value: Any) -> bool:
    """Return whether `value` is a result or a list of them."""
    row = value[0] if isinstance(value, list) and value else value
    return isinstance(row, dict) and isinstance(row.get("traj"), list) and "task_id" in row


def _results(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    for row in value if isinstance(value, list) else [value]:
        if not isinstance(row, dict) or not recognises(row):
            tally.drop("an entry that is no result")
            continue
        read_all = (read_message(raw, i, tally) for i, raw in enumerate(listing(row["traj"])))
        reads = without_stop([Read(message=message) for message in read_all if message is not None], tally)
        task, trial = name_of(row, "task_id"), name_of(row, "trial")
        id_ = f"{name}.task-{task}" + (f".trial-{trial}" if trial else "")
        reward = number(mapping(row).get("reward"))
        meta = {} if reward is None else {"reward": reward}
        episode = assemble(reads, id_=id_, tools=(), meta=meta, tally=tally)
        if episode is not None:
            yield episode


read = each(_results)
FORMAT = Format(name="tau-bench", recognises=recognises, read=read)


def without_stop(reads: list[Read], tally: Tally) -> list[Read]:
    """Return the messages without the stop marker at their end."""
    if reads and reads[-1].message.role == "user" and STOP in text_of(reads[-1].message.content):
        tally.drop(STOPPED, reads[-1].message)
        return reads[:-1]
    return reads

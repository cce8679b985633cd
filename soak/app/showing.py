"""`soak show`: the turns of a run, or one of them with its evidence."""

from dataclasses import dataclass
from pathlib import Path

from soak.app.judging import engine_turns_of
from soak.check import final_turns
from soak.errors import UsageError
from soak.facts import EngineTurn, Message, Record, TurnKey
from soak.store import History, RunFolder


@dataclass(frozen=True, kw_only=True)
class ShownTurn:
    """
    One stored turn: its record, the messages the model saw, the recorded answer, the raw stream if kept, and what the
    engine did meanwhile (None: the turn did not finish).
    """

    record: Record
    prefix: tuple[Message, ...]
    reference: Message | None
    raw: bytes | None
    engine: EngineTurn | None = None


def list_turns(path: Path, class_: str | None = None) -> list[Record]:
    """Return the last record of every turn of a run, in plan order of the history; only those of `class_` if given."""
    with RunFolder.open(path).history() as history:
        records = list(history.final().values())
    if class_ is None:
        return records
    return [record for record in records if class_ in (record.outcome, record.judgement and record.judgement.class_)]


def show_turn(path: Path, name: str) -> ShownTurn:
    """Return one turn by its key `episode:turn:pass[:arm]`; raises `UsageError` if the run has no such turn."""
    folder = RunFolder.open(path)
    with folder.history() as history:
        record = history.final()[find_turn(history, name)]
        started = history.started(record.key)
        return ShownTurn(
            record=record,
            prefix=history.prefix(started.prefix) if started else (),
            reference=history.message(started.answer) if started and started.answer else None,
            raw=history.raw(record.key),
            engine=engine_turns_of(history, folder.manifest, final_turns(history.outlines())).get(record.key),
        )


def find_turn(history: History, name: str) -> TurnKey:
    """Return the one turn meant by a key without its arm, or with it; raises `UsageError` for none or several."""
    found = [key for key in history.final() if str(key) == name or str(key).startswith(f"{name}:")]
    if len(found) == 1:
        return found[0]
    why = (
        "no turn has that key" if not found else f"{len(found)} turns begin like that: {', '.join(map(str, found[:3]))}"
    )
    raise UsageError(
        f"turn {name} cannot be shown", why=why, hint="take a key from `soak show RUN`, such as episode:3:0:candidate"
    )

"""
BFCL multi-turn questions: what a user says, turn by turn, as live-history scripts.

Tools are named by class in `involved_classes` and their schemas are elsewhere. Empty turns stand for "new functions
are available now". Files of possible answers hold the calls that are expected and no conversation: counted only.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.live_script import scripted
from soak.importers.tally import Tally
from soak.importers.values import listing, mapping, name_of


def recognises(value: Any) -> bool:
    """Return whether `value` is a question, or the possible answer to one."""
    if not isinstance(value, dict):
        return False
    question = listing(value.get("question"))
    if question and isinstance(question[0], list) and "involved_classes" in value:
        return True
    return set(value) == {"id", "ground_truth"} and isinstance(value["ground_truth"], list)


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield a script for each question."""
    turns = calls = 0
    for entry in entries:
        value = mapping(entry.value)
        if "ground_truth" in value:
            tally.drop("a possible answer, which is no conversation")
            turns += len(listing(value["ground_truth"]))
            calls += sum(len(listing(turn)) for turn in listing(value["ground_truth"]))
            continue
        classes = [name for name in listing(value.get("involved_classes")) if isinstance(name, str)]
        meta = {"line": entry.number, "involved_classes": classes}
        id_ = name_of(value, "id") or entry.name
        episode = scripted(listing(value.get("question")), id_=id_, meta=meta, tokens=None, tally=tally)
        if episode is not None:
            yield episode
    if turns:
        tally.note(f"possible answers: {turns} turns, {calls} calls")


FORMAT = Format(name="bfcl", recognises=recognises, read=read)

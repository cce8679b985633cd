"""
The history of a proxied run → episodes: conversations as they were asked, with the answers they got.

Made from the run folder alone, at the end of a run or at any time later, so that a run that was killed can be recorded
like one that was ended. A turn asked several times is taken once, with the first whole answer it got. Turns of one
conversation whose tools differ go to episodes of their own, for an episode has one set of tools.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from soak.facts import Episode, Message, Observation, Record, Started, Turn, digest_of, make_episode
from soak.importers.assembly import safe_id
from soak.proxy.plain import foreign_part
from soak.store import History

_WHOLE = frozenset({"complete", "no_end_marker"})
_WAIT_MAX_S = 86_400.0


@dataclass(kw_only=True)
class Recording:
    """What was taken into a recording: `episodes` and `turns`, and by reason what was left out."""

    episodes: int = 0
    turns: int = 0
    unanswered: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True)
class _Asked:
    """A turn of the history: its start, and the best end of all times it was asked."""

    started: Started
    record: Record | None


class _Tree:
    """The messages of one episode in the making, each stored once; reasoning makes no difference: it is not sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.parents: list[int | None] = []
        self._index: dict[str, int] = {}
        self._digests: list[str] = []

    def add(self, message: Message, parent: int | None) -> int:
        """Return the index of `message` after `parent`."""
        sent = msgspec.structs.replace(message, reasoning=None)
        digest = digest_of(sent, "" if parent is None else self._digests[parent])
        index = self._index.setdefault(digest, len(self.messages))
        if index == len(self.messages):
            self.messages.append(message)
            self.parents.append(parent)
            self._digests.append(digest)
        elif message.reasoning:
            self.messages[index] = message
        return index

    def chain(self, messages: tuple[Message, ...]) -> int:
        """Return the index of the last of `messages`, one after the other."""
        at: int | None = None
        for message in messages:
            at = self.add(message, at)
        assert at is not None, "a start without messages is not written"
        return at


def recording_of(history: History, told: Recording) -> Iterator[Episode]:
    """Yield the episodes of a proxied run in the order in which they began; `told` is filled meanwhile."""
    names: Counter[str] = Counter()
    for (name, tools), turns in _groups(history, told).items():
        turns.sort(key=lambda asked: (asked.started.key.turn, asked.started.at))
        names[name] += 1
        id_ = safe_id(name) if names[name] == 1 else f"{safe_id(name)}+tools{names[name]}"
        episode = _episode(id_, history, tools, turns)
        told.episodes += 1
        told.turns += len(episode.turns)
        told.unanswered += sum(turn.answer is None for turn in episode.turns)
        yield episode


def _groups(history: History, told: Recording) -> dict[tuple[str, str | None], list[_Asked]]:
    """Return the turns to record by conversation and tools, each prefix once."""
    final = history.final()
    best: dict[tuple[str, str | None, str], _Asked] = {}
    for started in history.starts():
        why = _no_chat(started, history)
        if why is not None:
            told.left_out[f"{started.door}: {why}"] += 1
            continue
        asked = _Asked(started=started, record=final.get(started.key))
        place = (started.key.episode, started.tools, started.prefix)
        known = best.get(place)
        if known is not None:
            told.left_out["the same turn asked again"] += 1
        if known is None or (_answer(known.record) is None and _answer(asked.record) is not None):
            best[place] = asked
    groups: dict[tuple[str, str | None], list[_Asked]] = {}
    for (episode, tools, _), asked in best.items():
        groups.setdefault((episode, tools), []).append(asked)
    return groups


def _no_chat(started: Started, history: History) -> str | None:
    """Return why a turn cannot be asked again as a chat, None where it can."""
    if started.door == "completions":
        return "not a chat, and an episode is one"
    if started.door == "chat/completions":
        return None
    kinds = (foreign_part(message) for message in history.prefix(started.prefix))
    kind = next((kind for kind in kinds if kind is not None), None)
    return None if kind is None else f"a chat cannot carry what its messages hold ({kind})"


def _episode(id_: str, history: History, tools: str | None, turns: list[_Asked]) -> Episode:
    tree = _Tree()
    made: list[Turn] = []
    before: Record | None = None
    for index, asked in enumerate(turns):
        prefix = tree.chain(history.prefix(asked.started.prefix))
        answer = _answer(asked.record)
        made.append(
            Turn(
                index=index,
                prefix=prefix,
                answer=None if answer is None else tree.add(answer, prefix),
                wait_s=_wait_s(before, asked.started),
                completion_tokens=_seen(asked.record).output_tokens if answer is not None else None,
            )
        )
        before = asked.record
    return make_episode(
        id_,
        tree.messages,
        parents=tree.parents,
        turns=made,
        tools=history.tools(tools),
        meta={"source": "soak proxy", "keys": [str(asked.started.key) for asked in turns]},
    )


def _seen(record: Record | None) -> Observation:
    assert record is not None and record.observation is not None
    return record.observation


def _answer(record: Record | None) -> Message | None:
    """Return the answer of a turn that came to its end; one that broke off is none."""
    seen = record.observation if record is not None else None
    if seen is None or seen.ending not in _WHOLE:
        return None
    return Message(
        role="assistant",
        content=seen.content or (None if seen.tool_calls else ""),
        reasoning=seen.reasoning or None,
        tool_calls=seen.tool_calls,
    )


def _wait_s(before: Record | None, started: Started) -> float | None:
    """Return the pause since the answer before, None where there was none or it was no pause."""
    if before is None or before.observation is None:
        return None
    wait_s = started.at - before.at
    return round(wait_s, 3) if 0 <= wait_s < _WAIT_MAX_S else None

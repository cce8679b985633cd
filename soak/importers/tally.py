"""What an import found, kept, mended and dropped, counted while it goes."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from soak.facts import Episode, Message, characters


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by number and kind; `characters` are message text and tool-call arguments, each message once."""

    messages: int = 0
    roles: dict[str, int] = {}
    tool_calls: int = 0
    tool_results: int = 0
    parallel: int = 0
    characters: int = 0


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Where a source could not be read on, why, and what to do about it where that is known."""

    place: str
    why: str
    hint: str | None = None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    One source (a file, or a folder whose files are one format): what is in it, and what came of it.

    `messages`, `roles`, `tool_calls`, `tool_results`, `parallel`, `images` and `characters` are what was found, however
    often it was repeated, before anything was mended or dropped. `tails` are messages seen by one model call only and
    gone from the next request; they are not in the counts. `kept` is what the episodes hold. The two agree by

        found + tails + added = kept + dropped        (characters: `characters` + `tail_characters` + ...)

    `repaired` and `dropped` count by reason, `notes` are sentences. `unanswered` are turns without a recorded answer. A
    file that is not of a known format has format None. `broken` is where reading ended before the end: what stood
    before it is in the episodes, what stands after it is not.
    """

    source: str
    format: str | None
    episodes: int = 0
    turns: int = 0
    unanswered: int = 0
    messages: int = 0
    roles: dict[str, int] = {}
    tool_calls: int = 0
    tool_results: int = 0
    parallel: int = 0
    images: int = 0
    characters: int = 0
    tails: int = 0
    tail_characters: int = 0
    added_characters: int = 0
    dropped_characters: int = 0
    kept: Counts = Counts()
    repaired: dict[str, int] = {}
    dropped: dict[str, int] = {}
    redacted: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    broken: tuple[Broken, ...] = ()


class _Sums:
    """Counts in the making."""

    def __init__(self) -> None:
        self.roles: Counter[str] = Counter()
        self.calls = 0
        self.parallel = 0
        self.characters = 0

    def add(self, message: Message) -> None:
        """Count one message."""
        self.roles[message.role] += 1
        self.calls += len(message.tool_calls)
        self.parallel += len(message.tool_calls) > 1
        self.characters += characters(message)

    def counts(self) -> Counts:
        """Return the counts as they stand."""
        return Counts(
            messages=self.roles.total(),
            roles=dict(self.roles),
            tool_calls=self.calls,
            tool_results=self.roles["tool"],
            parallel=self.parallel,
            characters=self.characters,
        )


@dataclass
class Tally:
    """The counts of one source so far."""

    source: str
    format: str | None = None
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    dropped_characters: int = 0
    added_characters: int = 0
    tails: int = 0
    tail_characters: int = 0
    images: int = 0
    _found: _Sums = field(default_factory=_Sums)
    _kept: _Sums = field(default_factory=_Sums)
    _episodes: Counter[str] = field(default_factory=Counter)

    def repair(self, reason: str, count: int = 1) -> None:
        """Count something that was mended."""
        self.repaired[reason] += count

    def drop(self, reason: str, message: Message | None = None) -> None:
        """Count something that was left out; `message`, if it is one, counts as found."""
        self.dropped[reason] += 1
        if message is not None:
            self._found.add(message)
            self.dropped_characters += characters(message)

    def drop_text(self, reason: str, count: int) -> None:
        """Count `count` characters of text that stood in the file once more and were left out."""
        self.dropped[reason] += 1
        self._found.characters += count
        self.dropped_characters += count

    def discard(self, reason: str, episode: Episode) -> None:
        """Count a conversation that was found and is left out whole."""
        self.dropped[reason] += 1
        self.dropped_characters += sum(characters(node.message) for node in episode.nodes)

    def find(self, message: Message) -> None:
        """Count a message as found."""
        self._found.add(message)

    def tail(self, message: Message) -> None:
        """Count a message that was sent once and is gone from the next request."""
        self.tails += 1
        self.tail_characters += characters(message)

    def note(self, sentence: str) -> None:
        """Keep a sentence for the report, once; at most a hundred."""
        if sentence not in self.notes and len(self.notes) < 100:
            self.notes.append(sentence)

    def break_off(self, place: str, why: str, hint: str | None) -> None:
        """Keep where and why a file could not be read on."""
        self.broken.append(Broken(place=place, why=why, hint=hint))

    def add(self, episode: Episode) -> None:
        """Count an episode that is kept."""
        for node in episode.nodes:
            self._kept.add(node.message)
        self._episodes.update(
            episodes=1, turns=len(episode.turns), unanswered=sum(turn.answer is None for turn in episode.turns)
        )

    def report(self) -> SourceReport:
        """Return the counts as they stand."""
        found = self._found.counts()
        return SourceReport(
            source=self.source,
            format=self.format,
            **{name: getattr(found, name) for name in found.__struct_fields__},
            images=self.images,
            tails=self.tails,
            tail_characters=self.tail_characters,
            added_characters=self.added_characters,
            dropped_characters=self.dropped_characters,
            kept=self._kept.counts(),
            repaired=dict(self.repaired),
            dropped=dict(self.dropped),
            redacted=dict(self.redacted),
            notes=tuple(self.notes),
            broken=tuple(self.broken),
            episodes=self._episodes["episodes"],
            turns=self._episodes["turns"],
            unanswered=self._episodes["unanswered"],
        )

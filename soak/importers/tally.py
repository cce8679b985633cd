"""What an import read, mended and dropped, counted while it goes."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from soak.facts import Episode, Message, characters


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    One source file: what came of it, so that it can be compared with what is known to be in it.

    `characters` are message text and tool-call arguments, each message once; `dropped_characters` those of dropped
    messages. `repaired` and `dropped` count by reason, `notes` are sentences. `unanswered` are turns without a recorded
    answer. A file that is not of a known format has format None.
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
    dropped_characters: int = 0
    repaired: dict[str, int] = {}
    dropped: dict[str, int] = {}
    notes: tuple[str, ...] = ()


@dataclass
class Tally:
    """The counts of one source file so far."""

    source: str
    format: str | None = None
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    dropped_characters: int = 0
    images: int = 0
    _sums: Counter[str] = field(default_factory=Counter)
    _roles: Counter[str] = field(default_factory=Counter)

    def repair(self, reason: str, count: int = 1) -> None:
        """Count something that was mended."""
        self.repaired[reason] += count

    def drop(self, reason: str, message: Message | None = None) -> None:
        """Count something that was left out, with the text of `message`."""
        self.dropped[reason] += 1
        self.dropped_characters += 0 if message is None else characters(message)

    def note(self, sentence: str) -> None:
        """Keep a sentence for the report, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def add(self, episode: Episode) -> None:
        """Count an episode that is kept."""
        messages = [node.message for node in episode.nodes]
        self._roles.update(message.role for message in messages)
        self._sums.update(
            episodes=1,
            turns=len(episode.turns),
            unanswered=sum(turn.answer is None for turn in episode.turns),
            messages=len(messages),
            tool_calls=sum(len(message.tool_calls) for message in messages),
            tool_results=sum(message.role == "tool" for message in messages),
            parallel=sum(len(message.tool_calls) > 1 for message in messages),
            characters=sum(characters(message) for message in messages),
        )

    def report(self) -> SourceReport:
        """Return the counts as they stand."""
        return SourceReport(
            source=self.source,
            format=self.format,
            roles=dict(self._roles),
            images=self.images,
            dropped_characters=self.dropped_characters,
            repaired=dict(self.repaired),
            dropped=dict(self.dropped),
            notes=tuple(self.notes),
            **self._sums,
        )

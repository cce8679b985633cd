"""Responses that were heard, by their ids: for requests that say of their history only which response it ended with."""

from collections import OrderedDict
from dataclasses import dataclass

from soak.facts import Message, characters

ANSWERS_MAX = 20_000
CHARACTERS_MAX = 64_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What a request that goes on from a response begins with, and the conversation that it belongs to."""

    messages: tuple[Message, ...]
    episode: str
    characters: int


class Answered:
    """Keeps the last responses, bounded in number and characters; the rest are forgotten."""

    def __init__(self, answers_max: int = ANSWERS_MAX, characters_max: int = CHARACTERS_MAX) -> None:
        self._answers_max = answers_max
        self._characters_max = characters_max
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._characters = 0

    def keep(self, id_: str, messages: tuple[Message, ...], episode: str) -> None:
        """Remember the response `id_`: what was asked, with the answer at its end."""
        self._forget(self._kept.pop(id_, None))
        size = sum(characters(message) + len(message.reasoning or "") + 100 for message in messages)
        self._kept[id_] = Kept(messages, episode, size)
        self._characters += size
        while self._kept and (len(self._kept) > self._answers_max or self._characters > self._characters_max):
            self._forget(self._kept.popitem(last=False)[1])

    def get(self, id_: object) -> Kept | None:
        """Return what is known of the response `id_`."""
        return self._kept.get(id_) if isinstance(id_, str) else None

    def _forget(self, kept: Kept | None) -> None:
        self._characters -= kept.characters if kept is not None else 0

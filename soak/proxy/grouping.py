"""
Requests, each with its whole history, → conversations and places in them, while they come.

A request goes on with a conversation if its messages begin with all that an earlier request of it had (but for at most
three messages at that request's end, which some agents send once and do not keep), and then have an answer. Its turn is
the number of answers it holds, so that the same conversation gets the same keys in every run. The rest:

  the same messages again   a repeat (a retry, a second sample): the same turn, in the next pass
  another way on            a side conversation with an id of its own: two requests of one conversation at once, an
                            answer taken back and asked for again
  nothing known begins it   a new conversation, named by the digest of its first request

What was not gone on with for long is forgotten; a request that comes later still begins a new conversation.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from soak.facts import Node

TAIL_MAX = 3
KNOWN_MAX = 200_000

How = Literal["new", "goes_on", "repeat", "side", "named"]


class Place(NamedTuple):
    """Where a request belongs: episode, turn and pass of its key, and how that was found."""

    episode: str
    turn: int
    pass_: int
    how: How


class Conversations:
    """Gives every request a key of its own: the same episode, turn and pass are never given twice."""

    def __init__(self, known_max: int = KNOWN_MAX) -> None:
        self._known_max = known_max
        self._spots: OrderedDict[str, str] = OrderedDict()  # digest of a prefix, or of one less its tail → episode
        self._asked: OrderedDict[str, tuple[str, int]] = OrderedDict()  # digest of a whole request → its place
        self._passes: Counter[tuple[str, int]] = Counter()
        self.hows: Counter[How] = Counter()

    def named(self, episode: str, turn: int, nodes: Sequence[Node]) -> Place:
        """Return the place a client has named itself; named again, it is the next pass."""
        return self._settle(episode, turn, "named", nodes)

    def place(self, nodes: Sequence[Node], prefix: str = "chat", follows: str | None = None) -> Place:
        """
        Return the place of the request whose messages are `nodes`, a chain; `prefix` begins the id of a new one.

        `follows` is the conversation that the request says it goes on with: asked where its messages do not tell.
        """
        whole = nodes[-1].digest
        answers = sum(node.message.role == "assistant" for node in nodes)
        if whole in self._asked:
            episode, turn = self._asked[whole]
            return self._settle(episode, turn, "repeat", nodes)
        episode = self._goes_on(nodes) or follows or ""
        if episode and not self._passes[episode, answers]:
            return self._settle(episode, answers, "goes_on", nodes)
        base = episode or f"{prefix}-{whole.removeprefix('sha256:')[:12]}"
        how: How = "side" if episode else "new"
        return self._settle(self._free(base, answers), answers, how, nodes)

    def _goes_on(self, nodes: Sequence[Node]) -> str | None:
        """Return the conversation that the longest known beginning of `nodes` belongs to, if an answer follows it."""
        for i in range(len(nodes) - 2, -1, -1):
            if nodes[i + 1].message.role == "assistant" and (episode := self._spots.get(nodes[i].digest)):
                return episode
        return None

    def _free(self, base: str, turn: int) -> str:
        episode, number = base, 1
        while self._passes[episode, turn]:
            number += 1
            episode = f"{base}.{number}"
        return episode

    def _settle(self, episode: str, turn: int, how: How, nodes: Sequence[Node]) -> Place:
        self.hows[how] += 1
        pass_ = self._passes[episode, turn]
        self._passes[episode, turn] += 1
        self._remember(episode, turn, nodes)
        return Place(episode, turn, pass_, how)

    def _remember(self, episode: str, turn: int, nodes: Sequence[Node]) -> None:
        _keep(self._asked, nodes[-1].digest, (episode, turn), self._known_max)
        for i in range(max(0, len(nodes) - 1 - TAIL_MAX), len(nodes)):
            last = i == len(nodes) - 1
            if last or (nodes[i].digest not in self._spots and _speaks(nodes[: i + 1])):
                _keep(self._spots, nodes[i].digest, episode, self._known_max)


def _speaks(nodes: Sequence[Node]) -> bool:
    """Return whether anything but system text is among the messages."""
    return any(node.message.role not in ("system", "developer") for node in nodes)


def _keep(kept: OrderedDict[str, Any], name: str, value: Any, most: int) -> None:
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > most:
        kept.popitem(last=False)

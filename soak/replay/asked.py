"""What one turn asks: the messages the model sees, the tools it is offered, and what its answer is held against."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from soak.facts import Canary, Episode, Message, Node, Turn, chained


@dataclass(frozen=True, kw_only=True)
class Asked:
    """
    The content of a turn. `chain` is the prefix, first message first, chained by hash; never empty.

    `answer` is the recorded answer to this very prefix, if there is one: the classifiers hold the new answer against
    it, so it must not be given where the prefix is another one. `canary`: the secret words to look for in the new
    answer. `abort_after`: we close its stream after so many characters, for the plan says so.
    """

    chain: tuple[Node, ...]
    tools: tuple[dict[str, Any], ...] = ()
    answer: Node | None = None
    answer_tokens: int | None = None
    canary: Canary | None = None
    abort_after: int | None = None

    @classmethod
    def recorded(cls, episode: Episode, turn: Turn) -> Self:
        """Return a turn of the transcript as it was."""
        return cls(
            chain=episode.chain(turn),
            tools=episode.tools,
            answer=None if turn.answer is None else episode.nodes[turn.answer],
            answer_tokens=turn.completion_tokens,
        )

    @classmethod
    def of(cls, messages: Iterable[Message], tools: tuple[dict[str, Any], ...] = ()) -> Self:
        """Return a turn that no transcript knows."""
        return cls(chain=chained((), messages, tools), tools=tools)

    @property
    def digest(self) -> str:
        """The digest of the last message, and so of the whole prefix."""
        return self.chain[-1].digest

    @property
    def messages(self) -> tuple[Message, ...]:
        """All the model sees, first message first."""
        return tuple(node.message for node in self.chain)

"""How one arm's conversation came to its end, where that is known only at run time."""

from typing import Literal, NamedTuple

import msgspec

CONVERSATION_ENDED = "conversation_ended"
"""The kind of the event that holds a `ConversationEnd`."""


class ConversationKey(NamedTuple):
    """The name of one conversation in a run: one arm's trip through one episode in one pass."""

    episode: str
    pass_: int
    arm: str


class ConversationLoop(msgspec.Struct, frozen=True, kw_only=True):
    """
    The same again over several turns of one conversation; it fails no turn, for each of them alone may be in order.

    same_calls: calls that are equal, with equal results. near_calls: calls nearly equal, with equal results.
    same_answer: answers without a call. `onset_turn` to `last_turn` are turn indices; `period` counts calls (or
    answers), `copies` how often they came. `to_end`: nothing followed. `unit` is an excerpt of one period, at most 200
    characters, `text` the sentence a person reads.
    """

    kind: Literal["same_calls", "near_calls", "same_answer"]
    onset_turn: int
    last_turn: int
    period: int
    copies: float
    to_end: bool
    unit: str
    text: str


class ConversationEnd(msgspec.Struct, frozen=True, kw_only=True):
    """
    One arm's conversation is over: it needs no more turn, also not after a resume.

    `reason` is a word of the mode that carried it on (`answered`, `max_turns`, ...); `turns` counts those asked,
    skipped ones included. `last` is the digest of the last message, through which the whole can be read again.
    `counts` holds what else the mode counted, and `text` what a person reads of the end.
    """

    episode: str
    pass_: int = msgspec.field(name="pass")
    arm: str
    reason: str
    turns: int
    last: str | None = None
    counts: dict[str, int] = {}
    text: str = ""

    @property
    def key(self) -> ConversationKey:
        """The conversation's name."""
        return ConversationKey(self.episode, self.pass_, self.arm)

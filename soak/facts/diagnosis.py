"""Why a turn broke: what was tried, what it showed, and the verdict with what would change it."""

from typing import Literal

import msgspec

from soak.facts.finding import TurnClass
from soak.facts.probe import Outcomes

Cause = Literal[
    "engine: cache",
    "engine: speculation",
    "engine: other",
    "near-tie (numerics)",
    "model",
    "sampling",
    "client",
    "undecided",
]


class Law(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What a trusted server makes of one place of an answer: the taken token's log probability (nats, before temperature
    and truncation; None: below all that were listed, whose least is `floor`) and rank, and the two likeliest tokens.

    `position` counts tokens of the answer from 0. `nucleus` is the probability of all that is likelier than the taken
    token, at least.
    """

    position: int
    token: int
    logprob: float | None
    rank: int | None
    floor: float
    best: int
    best_logprob: float
    second_logprob: float | None
    nucleus: float

    @property
    def behind(self) -> float:
        """By how many nats, at least, the taken token lies behind the likeliest; 0 where it is the likeliest."""
        return self.best_logprob - (self.floor if self.logprob is None else self.logprob)

    @property
    def margin(self) -> float | None:
        """How far (nats) the likeliest token lies above the second."""
        return None if self.second_logprob is None else self.best_logprob - self.second_logprob


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Why a turn broke. `cause` is the verdict and `text` the sentence; `evidence` each thing that led to it, `open` what
    would change it or was not tried. `outcomes` are the conditions it was asked in, the first one as it was. `laws`
    are the places looked at (onset of the loop, or the stop), by a trusted server. `identical` of the repeats as it
    was gave the most frequent answer. `places` are positions relative to prompt, block and draft length.
    """

    schema: str = "soak.probe/1"
    probe: str = "triage"
    case: str
    failure: TurnClass
    cause: Cause
    text: str
    evidence: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    outcomes: tuple[Outcomes, ...] = ()
    laws: tuple[Law, ...] = ()
    identical: int = 0
    places: dict[str, int] = {}
    requests: int = 0

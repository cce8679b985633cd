"""What probes say before they send anything, and what they found."""

import msgspec

from soak.facts.finding import TurnClass


class ProbePlan(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a probe will do at most: `requests` in all, of at most `output_tokens` tokens together; `kept` of them are
    answered already. `sent` requests went out before for what the folder keeps, repeated attempts and scoring included:
    they count against `--max-requests` too. An attempt that is repeated after a refusal is sent, and counted, only
    where the limit given with `--max-requests` leaves room beyond these. `servers` are the states that are started or
    asked, in order; each is asked besides what it is (models, version, metrics, at most five answers of one token), and
    how a prompt is tokenised, which is not counted. `untried`: what cannot be tried, and why. `known` is what is known
    of the case before anything is asked, where that is enough: then nothing is sent.
    """

    schema: str = "soak.probe-plan/1"
    probe: str
    case: str
    requests: int
    output_tokens: int
    kept: int = 0
    sent: int = 0
    servers: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    known: str = ""


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What `asked` repeats of one case came to on one bench: how many of each class. `unanswered` of them broke off or
    never came: they are errors, and say nothing of what the model would have answered. The others are `counted` (all,
    where it is an error that is looked into): how many of these failed (any class but ok), the 95 % interval (Wilson)
    of that rate, and how many different answers there are among them (`distinct`).
    """

    bench: str
    change: str
    asked: int
    counted: int
    classes: dict[TurnClass, int]
    failed: int
    low: float
    high: float
    distinct: int
    server: str = "as built"
    unanswered: int = 0


class RepeatsFound(msgspec.Struct, frozen=True, kw_only=True):
    """What the plainest probe found: the turn as it was, `asked` times; `first` is what the first asking gave."""

    schema: str = "soak.probe/1"
    probe: str = "repeats"
    case: str
    first: TurnClass | None
    outcomes: tuple[Outcomes, ...]
    text: str

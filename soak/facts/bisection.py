"""`soak.bisect/1`: the search for the first bad build, what it was asked and what each step told."""

from typing import Literal

import msgspec

from soak.facts.build_file import NamedBuild

StepOutcome = Literal["good", "bad", "measured", "undecided", "untestable"]
BisectOutcome = Literal["found", "narrowed", "good_is_bad", "bad_is_good", "ends_alike", "open"]


class LeftOutBuild(msgspec.Struct, frozen=True, kw_only=True):
    """A build between the ends that is no candidate, and why."""

    build: str
    why: str


class BisectOrder(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is asked, written down before anything is started: all that going on takes.

    `builds` from the good end to the bad end. `good_rate`, `bad_rate`: failure rates of a good and of a bad build; both
    None: measured on the ends. `trust_ends`: the ends are not tested. `overrides` are the changes to the scenario,
    dotted; `digest` is that of the scenario as changed and its corpus.
    """

    builds: tuple[NamedBuild, ...]
    scenario: str
    digest: str
    overrides: dict[str, str] = {}
    model: str | None = None
    classes: tuple[str, ...] = ("garbage_loop",)
    good_rate: float | None = None
    bad_rate: float | None = None
    alpha: float
    beta: float
    turns_per_step: int
    min_turns: int = 0
    trust_ends: bool = False
    left_out: tuple[LeftOutBuild, ...] = ()


class BisectStep(msgspec.Struct, frozen=True, kw_only=True):
    """
    What testing one build told.

    `turns`, `failures`: those the decision rests on. `turns_sent`: all that were finished, `wall_s` the time it took.
    `log_ratio`: natural logarithm of the evidence, above 0 for bad, below 0 for good; with stated rates the likelihood
    ratio bad to good; None where the step measured a rate.
    `rate_low`, `rate_high`: the build's rate, but for alpha, however often one looks. `run`: its folder, inside the
    bisection's (None: nothing could be started).
    """

    build: str
    index: int
    outcome: StepOutcome
    text: str
    run: str | None = None
    turns: int = 0
    failures: int = 0
    turns_sent: int = 0
    wall_s: float = 0.0
    log_ratio: float | None = None
    rate_low: float = 0.0
    rate_high: float = 1.0


class Bisecting(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a bisection in its folder: what is asked, and the steps that are over."""

    schema: str = "soak.bisecting/1"
    order: BisectOrder
    steps: tuple[BisectStep, ...] = ()


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a bisection came to, or has come to so far (`open`).

    found: `first_bad` is the first bad build, `last_good` the one before it. narrowed: it is one of `suspects`, which
    could not be told apart. good_is_bad, bad_is_good: an end is not what it was said to be. ends_alike: the ends could
    not be told apart, or not tested. `good_rate`, `bad_rate`: between which was tested (None: not known yet);
    `measured`: they were measured on the ends. `error_bound`: the chance that any decision is wrong, by the union over
    the steps. `turns`: all that were sent.
    """

    schema: str = "soak.bisect/1"
    run: str
    scenario: str
    classes: list[str]
    outcome: BisectOutcome
    sentence: str
    first_bad: str | None = None
    last_good: str | None = None
    suspects: list[str] = []
    builds: list[str]
    left_out: list[LeftOutBuild] = []
    good_rate: float | None = None
    bad_rate: float | None = None
    measured: bool = False
    alpha: float
    beta: float
    error_bound: float
    turns: int
    steps_left: int = 0
    steps: list[BisectStep] = []

"""`soak.comparison/1`: two arms side by side. Field meanings are the contract's; None means not measured."""

from typing import Literal

import msgspec

from soak.facts.summary import Verdict

Result = Literal["improvement", "regression", "equivalent", "inconclusive"]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of one class among the finished turns of one arm."""

    events: int
    turns: int


class Discordant(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs in which only one arm had the event."""

    baseline_only: int
    candidate_only: int


class ClassComparison(msgspec.Struct, frozen=True, kw_only=True):
    """
    One class: counts, difference (candidate − baseline) and rate ratio with 95 % intervals, test, result.

    Counts are over the turns compared: the paired ones, or all finished ones where no turn is paired. `both`: pairs in
    which both arms had the event (None unpaired). `turns_needed_80`: turns per arm for 80 % power at these rates if
    failures do not recur on the same turns; `turns_needed_80_paired`: if they recur as often as they did here.
    """

    baseline: Events
    candidate: Events
    discordant: Discordant
    difference: float | None
    ci95: tuple[float, float] | None
    rate_ratio: float | None
    rate_ratio_ci95: tuple[float, float] | None
    p_value: float | None
    test: str
    turns_needed_80: int | None
    result: Result
    p_adjusted: float | None = None
    both: int | None = None
    turns_needed_80_paired: int | None = None


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """
    Summed turn time of the paired turns, in seconds, and its ratio candidate/baseline with a 95 % interval.

    `explained_by`: seconds of the change (candidate − baseline) in pairs, by class; a pair's change goes to the worse
    class of its two turns. `censored_pairs` were broken off by a limit: their times are lower bounds.
    `ratio_ok` is the ratio over pairs in which both turns are ok, so that loops do not decide it.
    """

    baseline_s: float | None
    candidate_s: float | None
    ratio: float | None
    ci95: tuple[float, float] | None
    explained_by: dict[str, float]
    censored_pairs: int = 0
    ratio_ok: float | None = None
    ratio_ok_ci95: tuple[float, float] | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two arms side by side. `invalid` says why no conclusion may be drawn (then the verdict is unknown)."""

    schema: str = "soak.comparison/1"
    baseline: str
    candidate: str
    pairs: int
    unpaired: int
    clusters: int
    classes: dict[str, ClassComparison]
    wall_clock: WallClock
    invalid: list[str]
    verdict: Verdict
    sentence: str
    notes: list[str] = []

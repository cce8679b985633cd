"""What was said before the numbers were seen: margins, limits, and whether the run could end by its own evidence."""

from dataclasses import dataclass

from soak.check.cards import same_run
from soak.check.pairing import ArmHistory
from soak.check.summary import scenario_of
from soak.facts import Decide

ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """
    What the person who compares states. None: nothing was stated, or (margin, min_turns) what the scenario says.

    `margin`: the largest difference of rates (a fraction) that does not matter; without it nothing is *equivalent*.
    `time_margin`: the same for the relative change of turn time. `min_turns`: what a comparison needs at least.
    `ttft_limit_ms`, `tpot_limit_ms`: limits within which an answer counts towards goodput.
    """

    margin: float | None = None
    time_margin: float | None = None
    min_turns: int | None = None
    ttft_limit_ms: float | None = None
    tpot_limit_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """
    What a comparison is held to, after the scenario was asked.

    `decide` is set where the run could end early by its own evidence: then that evidence alone decides, for a p-value
    does not survive a stop that depends on it.
    """

    alpha: float = ALPHA
    margin: float | None = None
    time_margin: float | None = None
    min_turns: int
    decide: Decide | None = None


def terms_of(baseline: ArmHistory, candidate: ArmHistory, stated: Stated) -> Terms:
    """Return the terms of a comparison; raises `RunFolderError` if a manifest's scenario cannot be read."""
    scenario = scenario_of(baseline.manifest)
    decide = scenario.decide if same_run(baseline, candidate) else None
    margin = stated.margin if stated.margin is not None or decide is None else decide.margin
    return Terms(
        alpha=decide.alpha if decide is not None else ALPHA,
        margin=margin,
        time_margin=stated.time_margin,
        min_turns=stated.min_turns if stated.min_turns is not None else scenario.thresholds.min_turns,
        decide=decide,
    )

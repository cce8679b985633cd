"""`soak power`: how many turns a comparison needs, from stated rates or from a pilot run."""

from dataclasses import dataclass
from pathlib import Path

from soak.app.comparing import arms_of, baseline_first
from soak.check import CLASS_SETS, Pilot, PowerPlan, Question, pilot_of, plan_power
from soak.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class PowerOrder:
    """What the command line asks for; None takes the pilot's value, or the default where there is no pilot."""

    rate_a: float | None = None
    rate_b: float | None = None
    turns: int | None = None
    icc: float | None = None
    cluster_size: float | None = None
    paired_correlation: float | None = None
    tokens_per_turn: float | None = None
    tokens_per_s: float | None = None
    gpus: int = 1
    alpha: float = 0.05
    power: float = 0.8
    pilot: Path | None = None
    class_: str = "garbage_loop"


def power(order: PowerOrder) -> PowerPlan:
    """
    Return what the comparison needs.

    Raises `UsageError` if no baseline rate is known or nothing is asked, `RunFolderError` for a damaged pilot.
    """
    pilot = _pilot(order)
    rate_a = order.rate_a if order.rate_a is not None else pilot.rate
    if rate_a is None or not 0 < rate_a < 1:
        raise UsageError(
            "the baseline's failure rate is not known",
            why="no failure was seen in the pilot" if order.pilot else "neither --rate-a nor --pilot was given",
            hint="give the rate to reckon with: --rate-a 1%",
        )
    if order.rate_b is None and order.turns is None:
        raise UsageError(
            "nothing is asked",
            why="neither --rate-b nor --turns was given",
            hint="--rate-b 0.5% asks how many turns show it, --turns 500 what they would show",
        )
    return plan_power(
        Question(
            rate_a=rate_a,
            rate_b=order.rate_b,
            turns=order.turns,
            icc=_known(order.icc, pilot.icc, 0.0),
            cluster_size=_known(order.cluster_size, pilot.cluster_size, 1.0),
            paired_correlation=_known(order.paired_correlation, pilot.paired_correlation, 0.0),
            tokens_per_turn=order.tokens_per_turn if order.tokens_per_turn is not None else pilot.tokens_per_turn,
            tokens_per_s=order.tokens_per_s if order.tokens_per_s is not None else pilot.tokens_per_s,
            gpus=order.gpus,
            alpha=order.alpha,
            power=order.power,
        )
    )


def _pilot(order: PowerOrder) -> Pilot:
    if order.class_ not in CLASS_SETS:
        raise UsageError(
            f"{order.class_} is no class of failure", why="a rate is planned for one", hint=", ".join(CLASS_SETS)
        )
    if order.pilot is None:
        return Pilot()
    arms = arms_of(order.pilot)
    ordered = baseline_first(*arms) if len(arms) == 2 else tuple(arms)
    return pilot_of([arm.history for arm in ordered], order.class_)


def _known(given: float | None, measured: float | None, default: float) -> float:
    if given is not None:
        return given
    return default if measured is None else measured

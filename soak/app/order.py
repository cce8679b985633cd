"""In which order the arms of a run are served: together, one after the other, or the first once more at the end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from soak.app.sides import ArmSpec
from soak.errors import UsageError
from soak.facts import ArmOrder, Budget
from soak.launch import cores, graphics_cards, spec_of

WantedOrder = Literal["auto", "together", "sequential", "ABA"]
AGAIN = "_again"

Phase = tuple[ArmSpec, ...]


def order_of(wanted: WantedOrder, arms: Sequence[ArmSpec], budget: Budget) -> ArmOrder:
    """
    Return the order in which the arms are served.

    auto: together, unless servers that soak starts would have to share a device: fewer cores than servers on a CPU,
    fewer GPUs than they take. Raises `UsageError` where one server after the other cannot be: with one arm, or with a
    budget of time, which would give the arms different turns.
    """
    order = _default(arms) if wanted == "auto" else wanted
    if order == "together":
        return order
    if len(arms) != 2:
        raise UsageError(
            f"--arm-order {order} needs two arms",
            why=f"the run has {len(arms)}",
            hint="give two --arm, or leave it out",
        )
    if budget.turns is None and budget.passes is None:
        why = "in a time each arm would get through other turns, and they could not be compared in pairs"
        shared = " (they would share a device, so they cannot run together)" if wanted == "auto" else ""
        raise UsageError(
            f"one arm after the other needs a budget of turns or passes{shared}", why=why, hint="--passes 1"
        )
    return order


def _default(arms: Sequence[ArmSpec]) -> ArmOrder:
    builds = [spec_of(arm.build) for arm in arms if arm.build is not None and arm.launched]
    if len(builds) < 2:
        return "together"
    on_gpu, on_cpu = sum(build.devices for build in builds), sum(not build.devices for build in builds)
    fits = on_cpu <= cores() and (on_gpu == 0 or on_gpu <= len(graphics_cards()))
    return "together" if fits else "sequential"


def phases_of(order: ArmOrder, arms: Sequence[ArmSpec]) -> tuple[Phase, ...]:
    """Return which arms are up at a time, in order; in ABA the first comes once more, as an arm of its own."""
    if order == "together":
        return (tuple(arms),)
    one_by_one = tuple((arm,) for arm in arms)
    return one_by_one if order == "sequential" else (*one_by_one, (replace(arms[0], name=arms[0].name + AGAIN),))

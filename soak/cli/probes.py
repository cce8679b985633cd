"""The kinds of probe: what each makes of the command line, and how it is planned, carried out and shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.app.probe.benches import ProbeOrder
from soak.app.probe.caches import CACHE_KINDS, CacheKind, CacheOrder, plan_caches, probe_caches
from soak.app.probe.divergence import plan_divergence, probe_divergence
from soak.app.probe.grid import plan_grid, probe_grid
from soak.app.probe.repeats import plan_repeats, probe_repeats
from soak.app.probe.shrink import ShrinkOrder, plan_shrink, probe_shrink
from soak.app.probe.triage import plan_triage, probe_triage
from soak.cli.lossless import EXIT, Testing, Told, order_of
from soak.cli.probing import Probing
from soak.errors import UsageError
from soak.facts import Case, Grid
from soak.report import (
    terminal_caches,
    terminal_diagnosis,
    terminal_divergence,
    terminal_grid,
    terminal_lossless,
    terminal_repeats,
    terminal_shrink,
)
from soak.scenario import find_grid

REPEATS = 10

_RESULT_EXIT = {"cache fault": 1, "numerics": 0, "nothing found": 0, "undecided": 3}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """
    What the command line asks for: at most one kind of probe (none: a triage), and what is said of it.

    `repeats` of None means what the kind takes by default.
    """

    grid: str | None = None
    cache: str | None = None
    diverge: bool = False
    shrink: bool = False
    only_repeats: bool = False
    lossless: bool = False
    repeats: int | None = None
    prefixes: int = 6
    in_flight: int = 8
    budget: int = 400
    told: Told
    html: Path | None = None

    def check(self, turns: int) -> None:
        """Raise `UsageError` where several kinds are asked for, or several turns of a kind that takes one."""
        given = [f"--{name.replace('_', '-')}" for name in _KINDS if getattr(self, name) not in (None, False)]
        if len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} are different probes",
                why="one is carried out at a time",
                hint="give one of them",
            )
        if turns > 1 and not set(given) & {"--grid", "--diverge", "--lossless"}:
            raise _several()


_KINDS = ("grid", "cache", "diverge", "shrink", "only_repeats", "lossless")


def probing_of(asked: Asked, cases: tuple[Case, ...], order: ProbeOrder) -> Probing:
    """Return the probe that is asked for; raises `UsageError` where it cannot be carried out so."""
    if asked.lossless:
        return _testing(cases, order, asked.told, asked.html)
    if asked.grid is not None:
        return gridding(order, find_grid(asked.grid), cases, asked.repeats)
    if asked.diverge:
        return _diverging(cases, order)
    return _of_one(asked, _only(cases), order)


def _of_one(asked: Asked, case: Case, order: ProbeOrder) -> Probing:
    """Return the probe of one turn."""
    many = asked.repeats or REPEATS
    if asked.shrink:
        return _shrinking((case,), ShrinkOrder(repeats=many, budget=asked.budget, in_flight=case.in_flight), order)
    if asked.cache is not None:
        kinds = _kinds(asked.cache)
        return _caches(case, CacheOrder(kinds=kinds, prefixes=asked.prefixes, in_flight=asked.in_flight), order)
    return _repeats(case, many, order) if asked.only_repeats else _triage(case, many, order)


def _several() -> UsageError:
    return UsageError(
        "several turns were named",
        why="one turn is asked again at a time",
        hint="--grid default, --diverge and --lossless take several",
    )


def _only(cases: tuple[Case, ...]) -> Case:
    if len(cases) > 1:
        raise _several()
    return cases[0]


def _repeats(case: Case, repeats: int, order: ProbeOrder) -> Probing:
    return Probing(
        plan=lambda: plan_repeats(case, repeats, order),
        act=lambda benches: probe_repeats(case, repeats, benches),
        show=terminal_repeats,
        fixed=True,
    )


def _shrinking(cases: Sequence[Case], order: ShrinkOrder, probing: ProbeOrder) -> Probing:
    return Probing(
        plan=lambda: plan_shrink(cases, order, probing),
        act=lambda benches: probe_shrink(cases, order, benches, probing.folder),
        show=terminal_shrink,
    )


def _testing(cases: Sequence[Case], order: ProbeOrder, told: Told, html: Path | None) -> Probing:
    testing = Testing(cases=cases, order=order, wanted=order_of(told, order.target), html=html)
    testing.check()
    return Probing(
        plan=testing.plan,
        act=testing.act,
        show=terminal_lossless,
        exit_code=lambda found: EXIT[found.result.result],
    )


def _diverging(cases: Sequence[Case], order: ProbeOrder) -> Probing:
    return Probing(
        plan=lambda: plan_divergence(cases, order),
        act=lambda benches: probe_divergence(cases, benches),
        show=terminal_divergence,
        fixed=True,
        exit_code=lambda found: {"deviates": 1, "undecided": 3}.get(found.result, 0),
    )


def _triage(case: Case, repeats: int, order: ProbeOrder) -> Probing:
    return Probing(
        plan=lambda: plan_triage(case, repeats, order),
        act=lambda benches: probe_triage(case, repeats, benches),
        show=terminal_diagnosis,
        exit_code=lambda found: 3 if found.cause == "undecided" else 0,
    )


def _caches(case: Case, order: CacheOrder, probing: ProbeOrder) -> Probing:
    return Probing(
        plan=lambda: plan_caches(case, order, probing),
        act=lambda benches: probe_caches(case, order, benches),
        show=terminal_caches,
        exit_code=lambda found: _RESULT_EXIT[found.result],
    )


def _kinds(text: str) -> tuple[CacheKind, ...]:
    names = CACHE_KINDS if text == "all" else tuple(part.strip() for part in text.split(","))
    unknown = [name for name in names if name not in CACHE_KINDS]
    if unknown:
        raise UsageError(
            f"no cache probe {unknown[0]!r}", why=f"there are {', '.join(CACHE_KINDS)}", hint="name some, or all"
        )
    return tuple(kind for kind in CACHE_KINDS if kind in names)


def gridding(order: ProbeOrder, grid: Grid, cases: tuple[Case, ...], repeats: int | None) -> Probing:
    """Return the probe that asks these turns in the cells of a grid; `repeats` in place of what its file says."""
    many = repeats or grid.repeats
    title = cases[0].name if len(cases) == 1 else f"{len(cases)} turns"
    most = max(case.sampling.max_tokens for case in cases)
    return Probing(
        plan=lambda: plan_grid(order, grid, repeats=many, title=title, turns=len(cases), max_tokens=most, cases=cases),
        act=lambda benches: probe_grid(order, grid, cases, many, benches),
        show=terminal_grid,
        fixed=True,
    )

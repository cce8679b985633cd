"""`soak run --grid`: a run that screens, then a grid over turns that failed in it."""

import sys
from dataclasses import replace
from pathlib import Path

from soak.app.probe.benches import ProbeOrder
from soak.app.probe.cases import failing_cases, settings_of_run
from soak.app.probe.grid import plan_grid
from soak.app.run import Prepared, RunOrder, RunResult
from soak.app.showing import list_turns
from soak.cli.door import out, say, terminal
from soak.cli.probes import gridding
from soak.cli.probing import found_by
from soak.errors import UsageError
from soak.facts import Grid, GriddedRun, GridFound, ProbePlan, encode
from soak.facts.scenario import ToolMode
from soak.plan import describe
from soak.report import terminal_grid, terminal_plan, terminal_probe_plan

_SCREENED = ("complete", "stopped")


def plan_both(order: RunOrder, prepared: Prepared, grid: Grid, turns: int) -> ProbePlan:
    """
    Return what the grid will send at most, once the run is over.

    Raises `UsageError` where it cannot follow this run: with several arms, or where fewer than two cells can be tried.
    """
    if len(order.arms) != 1:
        raise UsageError(
            "--grid needs a run of one arm",
            why=f"this one has {len(order.arms)}: the grid makes its own, of one build",
            hint="give one --target; compare builds without --grid",
        )
    return plan_grid(
        _probe_order(order, Path()),
        grid,
        repeats=grid.repeats,
        title=f"at most {turns} of the turns that fail",
        turns=turns,
        max_tokens=prepared.loaded.scenario.sampling.max_tokens,
    )


def show_plans(prepared: Prepared, planned: ProbePlan, *, as_json: bool) -> None:
    """Print what the run and the grid will send."""
    outline = describe(prepared.plan)
    if as_json:
        out(encode({"run": outline, "grid": planned}).decode())
    else:
        out(f"{terminal_plan(outline)}\n\nthen {terminal_probe_plan(planned)}")


def grid_after(order: RunOrder, grid: Grid, turns: int, result: RunResult, *, as_json: bool) -> None:
    """Ask at most `turns` turns that failed in the run again, and print what the grid (as JSON: both) came to."""
    found = _asked(order, grid, turns, result)
    if as_json:
        out(encode(GriddedRun(summary=result.summary, grid=found)).decode())
    elif found is not None:
        out("\n" + terminal_grid(found, **terminal()))


def _asked(order: RunOrder, grid: Grid, turns: int, result: RunResult) -> GridFound | None:
    if result.summary.state not in _SCREENED:
        say(f"no grid: the run is {result.summary.state}; after `soak resume` give its turns to `soak probe --grid`")
        return None
    if not any(record.judgement and record.judgement.class_ != "ok" for record in list_turns(result.folder)):
        say("no grid: no turn failed, and of turns that did not fail it has nothing to ask")
        return None
    cases = failing_cases(result.folder, turns)
    probe = _probe_order(order, result.folder / "grid", tools=cases[0].tool_mode)
    probe = replace(probe, settings=settings_of_run(result.folder))
    probing = gridding(probe, grid, cases, None)
    found: GridFound = found_by(probing, probing.planned(probe), probe, cases)
    say(f"\nanswers of the grid are kept in {probe.folder}")
    return found


def _probe_order(order: RunOrder, folder: Path, tools: ToolMode = "auto") -> ProbeOrder:
    """Return what the grid is told; it sends what its plan says, so that it needs no limit of its own."""
    return ProbeOrder(
        target=order.arms[0],
        folder=folder,
        max_requests=sys.maxsize,
        model=order.model,
        api_key=order.api_key,
        tools=tools,
    )

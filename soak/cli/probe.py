"""`soak probe`: one turn asked again, to find out what it needs to fail."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from soak.app.probe.benches import Benches, ProbeOrder, open_benches
from soak.app.probe.cases import arm_of_run, case_of_file, cases_of_run, failing_cases
from soak.app.probe.grid import plan_grid, probe_grid
from soak.app.probe.repeats import plan_repeats, probe_repeats
from soak.app.sides import DEFAULT_ARM, ArmSpec, arm_spec
from soak.cli.door import command, out, say, terminal
from soak.cli.steps import StepView
from soak.errors import UsageError
from soak.facts import Case, Grid, ProbePlan, encode
from soak.report import terminal_grid, terminal_probe_plan, terminal_repeats
from soak.scenario import find_grid

MAX_REQUESTS = 1000
REPEATS = 10


@dataclass(frozen=True, kw_only=True)
class Probing:
    """One kind of probe: what it would send, what it does, how its result is shown and which exit code it means."""

    plan: Callable[[], ProbePlan]
    act: Callable[[Benches], Any]
    show: Callable[..., str]
    exit_code: Callable[[Any], int] = lambda _: 0


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("probe", epilog="Example: soak probe runs/mine smoke-1:2:0 --repeats 20")(command(probe_command))


def probe_command(
    run_dir: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder the turn is in.")] = None,
    turns: Annotated[
        list[str] | None,
        typer.Argument(metavar="TURN", help="Its key, as `soak show RUN` lists it; several for --grid."),
    ] = None,
    turn_file: Annotated[
        Path | None, typer.Option("--turn-file", metavar="FILE", help="A turn file, in place of RUN and TURN.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="URL or build to ask; default: what the turn was asked on, or SOAK_TARGET."),
    ] = None,
    plain: Annotated[
        str | None,
        typer.Option(help="URL or build of the same model without speculation, where soak does not start the target."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one the server lists.")] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="How often each question is asked; default 10, with --grid what its file says."
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|default",
            help="Ask in every combination of settings and say which the fault needs; default: speculation, prefix"
            " cache, temperature.",
        ),
    ] = None,
    failing: Annotated[
        int | None, typer.Option("--failing", min=1, max=100, help="With --grid: this many of the run's failing turns.")
    ] = None,
    max_requests: Annotated[int, typer.Option(min=1, help="Never send more than this.")] = MAX_REQUESTS,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Where answers are kept; the same folder again goes on with it."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Ask one turn again: how often it fails, and what it needs to fail. Every answer is kept and never asked twice."""
    if grid is None and (failing is not None or len(turns or ()) > 1):
        raise UsageError(
            "several turns were named", why="one turn is asked again at a time", hint="--grid default takes several"
        )
    cases = _cases(run_dir, turns or [], turn_file, failing)
    case, turn = cases[0], cases[0].name if run_dir else None
    order = ProbeOrder(
        target=_target(target, run_dir, turn, case),
        plain=arm_spec("plain", plain) if plain else None,
        folder=into or new_probe_folder(),
        max_requests=max_requests,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        tools=case.tool_mode,
    )
    many = repeats or REPEATS
    probing = Probing(
        plan=lambda: plan_repeats(case, many),
        act=lambda benches: probe_repeats(case, many, benches),
        show=terminal_repeats,
    )
    if grid is not None:
        probing = gridding(order, find_grid(grid), cases, repeats)
    return carried_out(probing, order, case, only_plan=plan, as_json=as_json)


def carried_out(probing: Probing, order: ProbeOrder, case: Case, *, only_plan: bool, as_json: bool) -> int:
    """Say what will be sent; unless only that was asked, do it and print the result; return the exit code."""
    planned = probing.plan()
    if only_plan:
        out(encode(planned).decode() if as_json else terminal_probe_plan(planned))
        return 0
    found = found_by(probing, planned, order, case)
    out(encode(found).decode() if as_json else probing.show(found, **terminal()))
    say(f"\nanswers are kept in {order.folder}")
    return probing.exit_code(found)


def found_by(probing: Probing, planned: ProbePlan, order: ProbeOrder, case: Case) -> Any:
    """Say what will be sent, do it and return what was found; raises `UsageError` where it is more than it may be."""
    say(terminal_probe_plan(planned))
    if not case.exact:
        say("note: the request cannot be made again to the letter; it is asked as nearly as it can be")
    if planned.requests - planned.kept > order.max_requests:
        raise UsageError(
            f"this probe may need {planned.requests} requests",
            why=f"no more than {order.max_requests} may be sent",
            hint="give more with --max-requests, or ask for fewer repeats",
        )
    steps = StepView(Console(stderr=True, highlight=False))
    try:
        with open_benches(order, steps) as benches:
            return probing.act(benches)
    finally:
        steps.close()


def gridding(order: ProbeOrder, grid: Grid, cases: tuple[Case, ...], repeats: int | None) -> Probing:
    """Return the probe that asks these turns in the cells of a grid; `repeats` in place of what its file says."""
    many = repeats or grid.repeats
    title = cases[0].name if len(cases) == 1 else f"{len(cases)} turns"
    most = max(case.sampling.max_tokens for case in cases)
    return Probing(
        plan=lambda: plan_grid(order, grid, repeats=many, title=title, turns=len(cases), max_tokens=most, cases=cases),
        act=lambda benches: probe_grid(order, grid, cases, many, benches),
        show=terminal_grid,
    )


def _cases(run_dir: Path | None, turns: list[str], turn_file: Path | None, failing: int | None) -> tuple[Case, ...]:
    named = bool(turns) + (turn_file is not None) + (failing is not None)
    if named == 1 and turn_file is not None and run_dir is None:
        return (case_of_file(turn_file),)
    if named == 1 and turn_file is None and run_dir is not None:
        return failing_cases(run_dir, failing) if failing else cases_of_run(run_dir, turns)
    raise UsageError(
        "it is not clear which turn is meant",
        why="a turn is given as RUN and TURN, as RUN and --failing N, or as --turn-file FILE",
        hint="soak probe runs/mine smoke-1:2:0",
    )


def _target(target: str | None, run_dir: Path | None, turn: str | None, case: Case) -> ArmSpec:
    """Return the server to ask: the one named, else the build or URL the turn was asked on in its run."""
    target = target or os.environ.get("SOAK_TARGET") or None
    if target is not None:
        return arm_spec(DEFAULT_ARM, target)
    if run_dir is not None and turn is not None:
        card = arm_of_run(run_dir, turn)
        return ArmSpec(name=DEFAULT_ARM, target=card.given_target, build=card.recipe)
    if case.build:
        return arm_spec(DEFAULT_ARM, case.build)
    raise UsageError(
        "no server was named", why="the turn file does not say what was asked", hint="--target http://host:8000"
    )


def new_probe_folder() -> Path:
    """Return a folder for a new probe: `probes/TIME`."""
    return Path("probes") / time.strftime("%Y%m%d-%H%M%S")

"""`soak run` and `soak resume`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from soak.app.audience import Audience
from soak.app.order import WantedOrder
from soak.app.resume import resume
from soak.app.run import RunOrder, RunResult, prepare_run, run
from soak.app.sides import parse_arms, with_sampling
from soak.check import exit_code_of
from soak.cli.bisect import is_bisection, resume_bisection
from soak.cli.door import INTERRUPTED, command, out, say, terminal
from soak.cli.options import changes_of
from soak.cli.rungrid import grid_after, plan_both, show_plans
from soak.cli.together import under_views
from soak.errors import UsageError
from soak.facts import Grid, encode
from soak.plan import describe
from soak.report import terminal_plan, terminal_summary
from soak.scenario import find_grid

_BUDGETS = ("hours", "minutes", "passes", "turns")
_STATE_EXIT = {"stopped": 6, "interrupted": INTERRUPTED, "engine_gone": 5}

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document (soak.summary/1) on stdout.")]
LogJsonFlag = Annotated[bool, typer.Option("--log-json", help="Log lines as JSON instead of the live view.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("run", epilog="Example: soak run --scenario swe_agent --hours 5 --target http://localhost:8000")(
        command(run_command)
    )
    app.command("resume", epilog="Example: soak resume runs/swe_agent-20260101-120000-9f3a")(command(resume_command))


def run_command(
    scenario: Annotated[str, typer.Option(help="A scenario's name or the path of its YAML file.")],
    hours: Annotated[float | None, typer.Option(help="Budget: loop the corpus this long.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes.")] = None,
    passes: Annotated[int | None, typer.Option(help="Budget: trips through the corpus.")] = None,
    turns: Annotated[
        int | None, typer.Option(help="Budget: planned turns for each arm (with replay: agent, tasks).")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="URL of an OpenAI-compatible server, or a build. Default: SOAK_TARGET, else local."),
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option(metavar="NAME=URL|BUILD", help="One side; twice for a comparison.")
    ] = None,
    arm_order: Annotated[
        WantedOrder,
        typer.Option(help="Both servers at once, one after the other, or the first once more at the end (ABA)."),
    ] = "auto",
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one the server lists.")] = None,
    in_flight: Annotated[int | None, typer.Option(help="Conversations at once.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of order, requests and salts.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[ARM:]KEY=VALUE",
            help="Change one scenario field: sampling.max_tokens=96; for one arm alone a field of sampling:"
            " penalised:sampling.repetition_penalty=1.1. Repeatable.",
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|default",
            help="Afterwards ask turns that failed again, in every combination of settings, with seeds of their own:"
            " which setting does the fault need? The run only finds the turns; what failed in it is not counted again.",
        ),
    ] = None,
    grid_turns: Annotated[int, typer.Option(min=1, max=100, help="With --grid: at most so many turns.")] = 3,
    run_dir: Annotated[
        Path | None, typer.Option("--run", help="Where to keep the run; default: runs/SCENARIO-TIME.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be sent, and send nothing.")] = False,
    as_json: JsonFlag = False,
    log_json: LogJsonFlag = False,
) -> int:
    """Replay a scenario and judge each turn as it ends. Everything is kept in a run folder; the summary is printed."""
    sets, own = _by_arm(set_ or [])
    overrides = _overrides(sets, dict(zip(_BUDGETS, (hours, minutes, passes, turns), strict=True)), in_flight, seed)
    target = target or (None if arm else os.environ.get("SOAK_TARGET") or None)
    order = RunOrder(
        scenario=scenario,
        overrides=overrides,
        arms=with_sampling(parse_arms(arm or [], target), own),
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        folder=run_dir,
        arm_order=arm_order,
    )
    screening = (find_grid(grid), grid_turns) if grid else None
    embedded = target is None and not arm
    return _begin(order, screening, only_plan=plan, embedded=embedded, as_json=as_json, log_json=log_json)


def _begin(
    order: RunOrder,
    screening: tuple[Grid, int] | None,
    *,
    only_plan: bool,
    embedded: bool,
    as_json: bool,
    log_json: bool,
) -> int:
    """Say what will be sent or carry it out; `screening` is a grid that follows, and the most turns it takes."""
    prepared = prepare_run(order)  # what is wrong with the scenario is said before anything else begins
    planned = plan_both(order, prepared, *screening) if screening else None
    if only_plan and planned is not None:
        show_plans(prepared, planned, as_json=as_json)
        return 0
    if only_plan:
        outline = describe(prepared.plan)
        out(encode(outline).decode() if as_json else terminal_plan(outline))
        return 0
    if embedded:
        say("no --target and no SOAK_TARGET: starting the embedded local build (a real vLLM with a small model)")
    if screening is None:
        return _watched(lambda audience: run(order, audience, prepared), as_json=as_json, log_json=log_json)
    result = under_views(lambda audience: run(order, audience, prepared), log_json=log_json)
    if as_json:  # the one document on stdout is of both
        say(f"{terminal_summary(result.summary)}\n\nrun folder: {result.folder}")
    else:
        render(result, as_json=False)
    grid_after(order, *screening, result, as_json=as_json)
    return exit_code(result)


def resume_command(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    target: Annotated[str | None, typer.Option(help="Where the same build answers now, if it moved.")] = None,
    as_json: JsonFlag = False,
    log_json: LogJsonFlag = False,
) -> int:
    """Go on where a run or bisection broke off. Nothing is lost and nothing done twice."""
    if is_bisection(run_dir):
        return resume_bisection(run_dir, target=target, as_json=as_json, log_json=log_json)
    api_key = os.environ.get("SOAK_API_KEY") or None
    return _watched(
        lambda audience: resume(run_dir, target=target, api_key=api_key, audience=audience),
        as_json=as_json,
        log_json=log_json,
    )


def _by_arm(sets: list[str]) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Return the changes to the scenario, and those for one arm alone as (arm, key, value)."""
    shared: list[str] = []
    own: list[tuple[str, str, str]] = []
    for text in sets:
        key, sign, value = text.partition("=")
        arm, colon, field = key.strip().partition(":")
        if sign and colon and arm.isidentifier():
            own.append((arm, field, value))
        else:
            shared.append(text)
    return shared, own


def _overrides(
    sets: list[str], budget: dict[str, float | int | None], in_flight: int | None, seed: int | None
) -> dict[str, str]:
    """Return all changes to the scenario by dotted key; raises `UsageError` for what is not key=value."""
    changes = changes_of(sets)
    given = {f"budget.{name}": value for name, value in budget.items() if value is not None}
    if len(given) > 1:
        raise UsageError(
            "more than one budget was given", why=", ".join(given), hint="give one of --hours, --minutes, …"
        )
    named = {**given, "load.in_flight": in_flight, "seed": seed}
    return {**changes, **{name: str(value) for name, value in named.items() if value is not None}}


def _watched(act: Callable[[Audience], RunResult], *, as_json: bool, log_json: bool) -> int:
    """Run `act` under a view and render its result; the exit code is the verdict's, or how the run ended."""
    return render(under_views(act, log_json=log_json), as_json=as_json)


def render(result: RunResult, *, as_json: bool) -> int:
    """Print what a run came to and return the command's exit code."""
    if as_json:
        out(encode(result.summary).decode())
        say(terminal_summary(result.summary))
    else:
        out(terminal_summary(result.summary, **terminal()))
    say(f"\nrun folder: {result.folder}")
    return exit_code(result)


def exit_code(result: RunResult) -> int:
    """Return the command's exit code: the verdict's, or how the run ended."""
    return _STATE_EXIT.get(result.summary.state, exit_code_of(result.summary))

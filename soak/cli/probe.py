"""`soak probe`: a turn asked again, to find out why it broke and what it needs to fail."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from soak.app.probe.benches import Benches, ProbeOrder, open_benches
from soak.app.probe.caches import CACHE_KINDS, CacheKind, CacheOrder, plan_caches, probe_caches
from soak.app.probe.cases import arm_of_run, case_of_file, cases_of_run, failing_cases, settings_of_run
from soak.app.probe.divergence import plan_divergence, probe_divergence
from soak.app.probe.grid import plan_grid, probe_grid
from soak.app.probe.repeats import plan_repeats, probe_repeats
from soak.app.probe.shrink import ShrinkOrder, plan_shrink, probe_shrink
from soak.app.probe.triage import plan_triage, probe_triage
from soak.app.sides import DEFAULT_ARM, ArmSpec, arm_spec
from soak.cli.door import command, out, say, terminal
from soak.cli.lossless import (
    EXIT,
    ArmOption,
    ChunkOption,
    ControlOption,
    DefaultsOption,
    DeviceOption,
    HtmlOption,
    LosslessOption,
    PrecisionOption,
    ReferenceOption,
    Testing,
    Told,
    order_of,
    turns_of,
)
from soak.cli.steps import StepView
from soak.errors import SoakError, UsageError
from soak.facts import Case, Grid, ProbePlan, encode
from soak.report import (
    printable,
    terminal_caches,
    terminal_diagnosis,
    terminal_divergence,
    terminal_grid,
    terminal_lossless,
    terminal_probe_plan,
    terminal_repeats,
    terminal_shrink,
)
from soak.scenario import find_grid

MAX_REQUESTS = 1000
REPEATS = 10

_RESULT_EXIT = {"cache fault": 1, "numerics": 0, "nothing found": 0, "undecided": 3}


@dataclass(frozen=True, kw_only=True)
class Probing:
    """One kind of probe: what it would send, what it does, how its result is shown and which exit code it means."""

    plan: Callable[[], ProbePlan]
    act: Callable[[Benches], Any]
    show: Callable[..., str]
    exit_code: Callable[[Any], int] = lambda _: 0


TurnsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TURN", help="Its key, as `soak show RUN` lists it."),
]
TurnFilesOption = Annotated[
    list[Path] | None,
    typer.Option("--turn-file", metavar="FILE", help="A turn file, in place of RUN and TURN."),
]
TargetOption = Annotated[
    str | None,
    typer.Option(help="URL or build to ask; default: what the turn was asked on, or SOAK_TARGET."),
]
PlainOption = Annotated[
    str | None,
    typer.Option(help="URL or build of the same model without speculation, where soak does not start the target."),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        help="How often each question is asked; default: 10, --grid: what its file says, --lossless: RUN's answers.",
    ),
]
IntoOption = Annotated[
    Path | None,
    typer.Option("--into", metavar="DIR", help="Where answers are kept; the same folder again goes on with it."),
]
OnlyRepeatsOption = Annotated[
    bool, typer.Option("--only-repeats", help="Only ask it again as it was, and say how often it fails.")
]
CacheOption = Annotated[
    str | None,
    typer.Option(
        metavar="KINDS", help="Does the prefix cache change the answer? salted, aba, reprobe (comma), or all."
    ),
]
PrefixesOption = Annotated[
    int, typer.Option(min=1, max=1000, help="With --cache: beginnings of the conversation that are probed.")
]
InFlightOption = Annotated[
    int, typer.Option(min=1, max=4096, help="With --cache, --lossless: requests of the load at once.")
]
GridOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|default",
        help="Ask in every combination of settings and say which the fault needs; default: speculation, prefix"
        " cache, temperature.",
    ),
]
FailingOption = Annotated[
    int | None,
    typer.Option("--failing", min=1, max=100, help="With --grid, --diverge: this many of the run's failing turns."),
]
DivergeOption = Annotated[
    bool, typer.Option("--diverge", help="Where do greedy answers with and without speculation first part?")
]
ShrinkOption = Annotated[
    bool, typer.Option("--shrink", help="Find the smallest conversation that still fails as often.")
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("probe", epilog="Example: soak probe runs/mine smoke-1:2:0 --repeats 20")(command(probe_command))


def probe_command(
    run_dir: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder the turn is in.")] = None,
    turns: TurnsArgument = None,
    turn_file: TurnFilesOption = None,
    target: TargetOption = None,
    plain: PlainOption = None,
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one the server lists.")] = None,
    repeats: RepeatsOption = None,
    grid: GridOption = None,
    failing: FailingOption = None,
    max_requests: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Never send more than this: answers, repeated attempts and scores."),
    ] = MAX_REQUESTS,
    into: IntoOption = None,
    only_repeats: OnlyRepeatsOption = False,
    cache: CacheOption = None,
    prefixes: PrefixesOption = 6,
    in_flight: InFlightOption = 8,
    diverge: DivergeOption = False,
    shrink: ShrinkOption = False,
    budget: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="With --shrink: requests that all steps may take.")
    ] = 400,
    lossless: LosslessOption = False,
    control: ControlOption = 0,
    arm: ArmOption = None,
    generation_config: DefaultsOption = None,
    reference: ReferenceOption = None,
    precision: PrecisionOption = "float32",
    device: DeviceOption = "cpu",
    chunk: ChunkOption = 512,
    html: HtmlOption = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Ask one turn again: why it broke, and what it needs to fail. Every answer is kept and never asked twice."""
    _one_kind(
        {
            "--grid": grid,
            "--cache": cache,
            "--diverge": diverge,
            "--shrink": shrink,
            "--only-repeats": only_repeats,
            "--lossless": lossless,
        }
    )
    meant = (run_dir, turns or [], turn_file or [])
    if grid is None and not (diverge or lossless) and len(meant[1]) + len(meant[2]) > 1:
        raise _several()
    cases = turns_of(*meant, arm) if lossless else cases_given(*meant, failing)
    order = ProbeOrder(
        target=target_of(target, run_dir, cases[0]),
        plain=arm_spec("plain", plain) if plain else None,
        folder=into or new_probe_folder(),
        max_requests=max_requests,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        tools=cases[0].tool_mode,
        settings=settings_of_run(run_dir),
    )
    if lossless:
        told = Told(
            repeats=repeats or 0,
            control=control,
            in_flight=in_flight,
            generation_config=generation_config,
            reference=reference,
            precision=precision,
            device=device,
            chunk=chunk,
        )
        probing = _testing(cases, order, told, html)
    elif grid is not None:
        probing = gridding(order, find_grid(grid), cases, repeats)
    elif diverge:
        probing = _diverging(cases, order)
    else:
        case, many = _only(cases), repeats or REPEATS
        if shrink:
            probing = _shrinking((case,), ShrinkOrder(repeats=many, budget=budget, in_flight=case.in_flight), order)
        elif cache is not None:
            probing = _caches(case, CacheOrder(kinds=_kinds(cache), prefixes=prefixes, in_flight=in_flight), order)
        else:
            probing = _repeats(case, many, order) if only_repeats else _triage(case, many, order)
    return carried_out(probing, order, cases, only_plan=plan, as_json=as_json)


def _one_kind(asked: dict[str, object]) -> None:
    """Raise `UsageError` where several kinds of probe are asked for: each says by itself what it will send."""
    given = [name for name, value in asked.items() if value not in (None, False)]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} are different probes", why="one is carried out at a time", hint="give one of them"
        )


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


def carried_out(probing: Probing, order: ProbeOrder, cases: Sequence[Case], *, only_plan: bool, as_json: bool) -> int:
    """Say what will be sent; unless only that was asked, do it and print the result; return the exit code."""
    planned = probing.plan()
    if only_plan:
        out(encode(planned).decode() if as_json else terminal_probe_plan(planned))
        return 0
    found = found_by(probing, planned, order, cases)
    out(encode(found).decode() if as_json else probing.show(found, **terminal()))
    say(f"\nanswers are kept in {printable(str(order.folder))}")
    return probing.exit_code(found)


def found_by(probing: Probing, planned: ProbePlan, order: ProbeOrder, cases: Sequence[Case]) -> Any:
    """Say what will be sent, do it and return what was found; raises `UsageError` where it is more than it may be."""
    say(terminal_probe_plan(planned))
    if not all(case.exact for case in cases):
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
    except (KeyboardInterrupt, SoakError):
        trials = order.folder / "trials.jsonl"
        if trials.is_file() and trials.stat().st_size:
            say(f"what was answered is kept: the same command with --into {printable(str(order.folder))} goes on")
        raise
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


def cases_given(
    run_dir: Path | None, turns: list[str], turn_files: list[Path], failing: int | None = None
) -> tuple[Case, ...]:
    """Return the turns that are meant; raises `UsageError` where that is not clear."""
    named = bool(turns) + bool(turn_files) + (failing is not None)
    if named == 1 and turn_files and run_dir is None:
        return _each_once(tuple(map(case_of_file, turn_files)), len(turn_files))
    if named == 1 and not turn_files and run_dir is not None:
        return failing_cases(run_dir, failing) if failing else _each_once(cases_of_run(run_dir, turns), len(turns))
    raise UsageError(
        "it is not clear which turn is meant",
        why="a turn is given as RUN and TURN, as RUN and --failing N, or as --turn-file FILE",
        hint="soak probe runs/mine smoke-1:2:0",
    )


def _each_once(cases: tuple[Case, ...], named: int) -> tuple[Case, ...]:
    if len({case.digest for case in cases}) < named:
        raise UsageError("a turn was given twice", why="its answers would be counted twice", hint="give each turn once")
    return cases


def target_of(target: str | None, run_dir: Path | None, case: Case) -> ArmSpec:
    """
    Return the server to ask: the one named, else the build or URL the turn was asked on in its run, else SOAK_TARGET.

    What only a turn file names comes last, and is not told the user's key: the file may be somebody else's.
    """
    if target:
        return arm_spec(DEFAULT_ARM, target)
    if run_dir is not None:
        card = arm_of_run(run_dir, case.name)
        return ArmSpec(name=DEFAULT_ARM, target=card.given_target, build=card.recipe)
    if named := os.environ.get("SOAK_TARGET"):
        return arm_spec(DEFAULT_ARM, named)
    if case.build and os.environ.get("SOAK_API_KEY"):
        raise UsageError(
            "no server was named",
            why="SOAK_API_KEY is set, and it is not sent to a server that only the turn file names",
            hint=f"--target {case.build[:200]}, if that is the one",
        )
    if case.build:
        return arm_spec(DEFAULT_ARM, case.build)
    raise UsageError(
        "no server was named", why="the turn file does not say what was asked", hint="--target http://host:8000"
    )


def new_probe_folder() -> Path:
    """Return a folder for a new probe: `probes/TIME`."""
    return Path("probes") / time.strftime("%Y%m%d-%H%M%S")

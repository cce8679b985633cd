"""`soak probe` and `soak repro`: one turn asked again, to find out what it needs to fail, and to show it to others."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from soak.app.probe.benches import Benches, ProbeOrder, open_benches
from soak.app.probe.caches import CACHE_KINDS, CacheKind, CacheOrder, plan_caches, probe_caches
from soak.app.probe.cases import arm_of_run, case_of_file, case_of_run
from soak.app.probe.divergence import plan_divergence, probe_divergence
from soak.app.probe.repeats import plan_repeats, probe_repeats
from soak.app.probe.repro import make_repro, plan_repro
from soak.app.probe.shrink import ShrinkOrder, plan_shrink, probe_shrink
from soak.app.probe.triage import plan_triage, probe_triage
from soak.app.sides import DEFAULT_ARM, ArmSpec, arm_spec
from soak.cli.door import command, out, say, terminal
from soak.cli.steps import StepView
from soak.errors import UsageError
from soak.facts import Case, ProbePlan, encode
from soak.report import (
    terminal_caches,
    terminal_diagnosis,
    terminal_divergence,
    terminal_probe_plan,
    terminal_repeats,
    terminal_repro,
    terminal_shrink,
)

MAX_REQUESTS = 1000

_RESULT_EXIT = {"cache fault": 1, "numerics": 0, "nothing found": 0, "undecided": 3}


@dataclass(frozen=True, kw_only=True)
class Probing:
    """One kind of probe: what it would send, what it does, how its result is shown and which exit code it means."""

    plan: Callable[[], ProbePlan]
    act: Callable[[Benches], Any]
    show: Callable[..., str]
    exit_code: Callable[[Any], int] = lambda _: 0


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("probe", epilog="Example: soak probe runs/mine smoke-1:2:0 --repeats 20")(command(probe_command))
    app.command("repro", epilog="Example: soak repro runs/mine smoke-1:2:0 -o loop.zip")(command(repro_command))


def probe_command(
    run_dir: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder the turn is in.")] = None,
    turns: Annotated[
        list[str] | None,
        typer.Argument(metavar="TURN", help="Its key, as `soak show RUN` lists it."),
    ] = None,
    turn_file: Annotated[
        list[Path] | None,
        typer.Option("--turn-file", metavar="FILE", help="A turn file, in place of RUN and TURN."),
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
    repeats: Annotated[int, typer.Option(min=1, max=10_000, help="How often each question is asked.")] = 10,
    max_requests: Annotated[int, typer.Option(min=1, help="Never send more than this.")] = MAX_REQUESTS,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Where answers are kept; the same folder again goes on with it."),
    ] = None,
    only_repeats: Annotated[
        bool, typer.Option("--only-repeats", help="Only ask it again as it was, and say how often it fails.")
    ] = False,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="KINDS", help="Does the prefix cache change the answer? salted, aba, reprobe (comma), or all."
        ),
    ] = None,
    prefixes: Annotated[
        int, typer.Option(min=1, max=1000, help="With --cache: beginnings of the conversation that are probed.")
    ] = 6,
    in_flight: Annotated[int, typer.Option(min=1, max=4096, help="With --cache: requests of the load at once.")] = 8,
    diverge: Annotated[
        bool, typer.Option("--diverge", help="Where do greedy answers with and without speculation first part?")
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Find the smallest conversation that still fails as often.")
    ] = False,
    budget: Annotated[int, typer.Option(min=1, help="With --shrink: requests that all steps may take.")] = 400,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Ask one turn again: why it broke, and what it needs to fail. Every answer is kept and never asked twice."""
    _refuse_several(
        {"--only-repeats": only_repeats, "--cache": cache is not None, "--diverge": diverge, "--shrink": shrink}
    )
    cases = _cases(run_dir, turns or [], turn_file or [])
    order = ProbeOrder(
        target=_target(target, run_dir, turns[0] if turns else None, cases[0]),
        plain=arm_spec("plain", plain) if plain else None,
        folder=into or new_probe_folder(),
        max_requests=max_requests,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        tools=cases[0].tool_mode,
    )
    if diverge:
        return carried_out(_diverging(cases, order), order, cases, only_plan=plan, as_json=as_json)
    case = _only(cases)
    if shrink:
        probing = _shrinking((case,), ShrinkOrder(repeats=repeats, budget=budget), order.folder)
    elif cache is not None:
        probing = _caches(case, CacheOrder(kinds=_kinds(cache), prefixes=prefixes, in_flight=in_flight))
    else:
        probing = _repeats(case, repeats) if only_repeats else _triage(case, repeats, order)
    return carried_out(probing, order, cases, only_plan=plan, as_json=as_json)


def _refuse_several(given: Mapping[str, bool]) -> None:
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise UsageError(
            f"{' and '.join(names)} are different probes",
            why="one command carries out one of them",
            hint="give one at a time; with the same --into they share their answers",
        )


def _only(cases: tuple[Case, ...]) -> Case:
    if len(cases) > 1:
        raise UsageError(
            f"{len(cases)} turns were given", why="this probe is of one turn", hint="give one, or use --diverge"
        )
    return cases[0]


def repro_command(
    run_dir: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder the turns are in.")] = None,
    turns: Annotated[
        list[str] | None, typer.Argument(metavar="TURN…", help="Keys of turns; several are asked together.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.zip", help="Where the bundle goes.")] = Path(
        "repro.zip"
    ),
    turn_file: Annotated[
        list[Path] | None,
        typer.Option("--turn-file", metavar="FILE", help="A turn file, in place of RUN and TURN. Repeatable."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="URL or build to ask; default: what the turn was asked on, or SOAK_TARGET.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one the server lists.")] = None,
    repeats: Annotated[int, typer.Option(min=2, max=10_000, help="Rounds the bundle counts and promises.")] = 20,
    in_flight: Annotated[int, typer.Option(min=1, max=4096, help="Requests at once.")] = 1,
    shrink: Annotated[bool, typer.Option(help="Make the conversation as small as it still fails.")] = True,
    budget: Annotated[int, typer.Option(min=1, help="Requests that all steps of shrinking may take.")] = 400,
    max_requests: Annotated[int, typer.Option(min=1, help="Never send more than this.")] = MAX_REQUESTS,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Where answers are kept; the same folder again goes on with it."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Make a bundle that shows a failure with nothing but Python: python reproduce.py URL."""
    cases = _cases(run_dir, turns or [], turn_file or [])
    order = ProbeOrder(
        target=_target(target, run_dir, turns[0] if turns else None, cases[0]),
        folder=into or new_probe_folder(),
        max_requests=max_requests,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        tools=cases[0].tool_mode,
    )
    wanted = ShrinkOrder(repeats=repeats, budget=budget, in_flight=in_flight)
    probing = Probing(
        plan=lambda: plan_repro(cases, wanted, shrinking=shrink),
        act=lambda benches: make_repro(cases, wanted, benches, output, shrinking=shrink),
        show=terminal_repro,
    )
    return carried_out(probing, order, cases, only_plan=plan, as_json=as_json)


def _cases(run_dir: Path | None, turns: list[str], turn_files: list[Path]) -> tuple[Case, ...]:
    """Return the turns that are meant: those of a run, or those in turn files, each of them once."""
    if bool(turn_files) == (run_dir is not None) or bool(turns) != (run_dir is not None):
        raise UsageError(
            "it is not clear which turn is meant",
            why="a turn is given as RUN and TURN, or as --turn-file FILE",
            hint="soak probe runs/mine smoke-1:2:0",
        )
    cases = (
        tuple(map(case_of_file, turn_files)) if run_dir is None else tuple(case_of_run(run_dir, one) for one in turns)
    )
    if len({case.digest for case in cases}) < len(cases):
        raise UsageError("a turn was given twice", why="its answers would be counted twice", hint="give each turn once")
    return cases


def _repeats(case: Case, repeats: int) -> Probing:
    return Probing(
        plan=lambda: plan_repeats(case, repeats),
        act=lambda benches: probe_repeats(case, repeats, benches),
        show=terminal_repeats,
    )


def _shrinking(cases: Sequence[Case], order: ShrinkOrder, folder: Path) -> Probing:
    return Probing(
        plan=lambda: plan_shrink(cases, order),
        act=lambda benches: probe_shrink(cases, order, benches, folder),
        show=terminal_shrink,
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


def _caches(case: Case, order: CacheOrder) -> Probing:
    return Probing(
        plan=lambda: plan_caches(case, order),
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
            found = probing.act(benches)
    finally:
        steps.close()
    out(encode(found).decode() if as_json else probing.show(found, **terminal()))
    say(f"\nanswers are kept in {order.folder}")
    return probing.exit_code(found)


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

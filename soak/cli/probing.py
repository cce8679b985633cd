"""How a probe is carried out, whichever kind it is: which turn and server are meant, what is said, asked and shown."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from soak.app.probe.benches import Benches, ProbeOrder, open_benches, sent_before
from soak.app.probe.cases import arm_of_run, case_of_file, cases_of_run, failing_cases, settings_of_run
from soak.app.sides import DEFAULT_ARM, ArmSpec, arm_spec
from soak.cli.door import out, say, terminal
from soak.cli.steps import StepView
from soak.errors import SoakError, UsageError
from soak.facts import Case, ProbePlan, encode
from soak.report import printable, terminal_probe_plan

MAX_REQUESTS = 1000


@dataclass(frozen=True, kw_only=True)
class Probing:
    """
    One kind of probe: what it would send, what it does, how its result is shown and which exit code it means.

    `fixed`: it sends all that its plan says. Others may be done with less.
    """

    plan: Callable[[], ProbePlan]
    act: Callable[[Benches], Any]
    show: Callable[..., str]
    exit_code: Callable[[Any], int] = lambda _: 0
    fixed: bool = False

    def planned(self, order: ProbeOrder) -> ProbePlan:
        """Return the plan, with what the folder says was sent before; raises `RunFolderError` if it is damaged."""
        return msgspec.structs.replace(self.plan(), sent=sent_before(order.folder))


def carried_out(probing: Probing, order: ProbeOrder, cases: Sequence[Case], *, only_plan: bool, as_json: bool) -> int:
    """Say what will be sent; unless only that was asked, do it and print the result; return the exit code."""
    planned = probing.planned(order)
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
    _check_room(planned, order.max_requests, fixed=probing.fixed)
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


def _check_room(planned: ProbePlan, max_requests: int, *, fixed: bool) -> None:
    """Raise `UsageError` where what is missing is more than may be sent; of a fixed size, besides what was sent."""
    missing, before = planned.requests - planned.kept, planned.sent if fixed else 0
    if not missing or missing + before <= max_requests:
        return
    told = f", and {before} were sent before" if before else ""
    already = f", {planned.kept} of which are answered" if planned.kept else ""
    raise UsageError(
        f"this probe {'needs' if fixed else 'may need'} {planned.requests} requests{already}",
        why=f"no more than {max_requests} may be sent{told}",
        hint="give more with --max-requests, or ask for fewer repeats",
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


def order_for(
    case: Case,
    run_dir: Path | None,
    *,
    target: str | None,
    into: Path | None,
    max_requests: int,
    model: str | None,
    plain: str | None = None,
) -> ProbeOrder:
    """Return what a probe of this turn is told, as the command line, the run and the environment say it."""
    return ProbeOrder(
        target=target_of(target, run_dir, case),
        plain=arm_spec("plain", plain) if plain else None,
        folder=into or new_probe_folder(),
        max_requests=max_requests,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        tools=case.tool_mode if case.tools else "auto",  # without tools nobody needs to take calls
        settings=settings_of_run(run_dir),
    )


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

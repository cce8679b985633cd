"""`soak probe`: a turn asked again, to find out why it broke and what it needs to fail; its options, and no more."""

from pathlib import Path
from typing import Annotated

import typer

from soak.cli.door import command
from soak.cli.lossless import (
    ArmOption,
    ChunkOption,
    ControlOption,
    DefaultsOption,
    DeviceOption,
    HtmlOption,
    LosslessOption,
    PrecisionOption,
    ReferenceOption,
    Told,
    turns_of,
)
from soak.cli.probes import Asked, probing_of
from soak.cli.probing import MAX_REQUESTS, carried_out, cases_given, order_for

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
    asked = Asked(
        grid=grid,
        cache=cache,
        diverge=diverge,
        shrink=shrink,
        only_repeats=only_repeats,
        lossless=lossless,
        repeats=repeats,
        prefixes=prefixes,
        in_flight=in_flight,
        budget=budget,
        told=Told(
            repeats=repeats or 0,
            control=control,
            in_flight=in_flight,
            generation_config=generation_config,
            reference=reference,
            precision=precision,
            device=device,
            chunk=chunk,
        ),
        html=html,
    )
    meant = (run_dir, turns or [], turn_file or [])
    asked.check(len(meant[1]) + len(meant[2]))
    cases = turns_of(*meant, arm) if lossless else cases_given(*meant, failing)
    order = order_for(cases[0], run_dir, target=target, plain=plain, into=into, max_requests=max_requests, model=model)
    return carried_out(probing_of(asked, cases, order), order, cases, only_plan=plan, as_json=as_json)

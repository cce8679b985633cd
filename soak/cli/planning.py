"""`soak power`: turns, hours and GPU-hours that a comparison needs; no server."""

from pathlib import Path
from typing import Annotated

import typer

from soak.app.planning import PowerOrder, power
from soak.check import Design, PowerPlan
from soak.cli.door import command, out
from soak.cli.options import share_of
from soak.facts import encode

_TITLES = {
    "unpaired": "unpaired: each turn in one arm",
    "paired": "paired: each turn in both arms",
    "clustered": "paired, turns in episodes",
    "sequential": "the same, stopped by its evidence (typical)",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("power", epilog="Example: soak power --rate-a 2.2% --rate-b 1.1% --cluster-size 30 --icc 0.05")(
        command(power_command)
    )


def power_command(
    rate_a: Annotated[str | None, typer.Option("--rate-a", help="The baseline's failure rate: 2.2% or 0.022.")] = None,
    rate_b: Annotated[str | None, typer.Option("--rate-b", help="The rate to be told apart from it.")] = None,
    turns: Annotated[
        int | None, typer.Option("--turns", min=1, help="What would this many turns per arm show?")
    ] = None,
    icc: Annotated[
        float | None, typer.Option("--icc", min=-1, max=1, help="Correlation of two turns of one episode.")
    ] = None,
    cluster_size: Annotated[float | None, typer.Option("--cluster-size", min=1, help="Turns in an episode.")] = None,
    paired_correlation: Annotated[
        float | None, typer.Option("--paired-correlation", min=-1, max=1, help="Of one turn's outcomes in both arms.")
    ] = None,
    tokens_per_turn: Annotated[float | None, typer.Option("--tokens-per-turn", min=0, help="Tokens generated.")] = None,
    tokens_per_s: Annotated[
        float | None, typer.Option("--tokens-per-s", min=0, help="What one arm's server generates in all.")
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="GPUs of one server.")] = 1,
    alpha: Annotated[float, typer.Option("--alpha", min=0.0001, max=0.5, help="Chance of a false alarm.")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", min=0.05, max=0.999, help="Chance to see the difference.")] = 0.8,
    pilot: Annotated[
        Path | None, typer.Option("--pilot", metavar="RUN", help="Take what is not given from this run.")
    ] = None,
    class_: Annotated[str, typer.Option("--class", help="The class of failure the pilot is asked about.")] = (
        "garbage_loop"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.power/1 on stdout.")] = False,
) -> int:
    """Say how many turns it takes to tell two failure rates apart. Hours too, from the --tokens options or a pilot."""
    plan = power(
        PowerOrder(
            rate_a=share_of("--rate-a", rate_a),
            rate_b=share_of("--rate-b", rate_b),
            turns=turns,
            icc=icc,
            cluster_size=cluster_size,
            paired_correlation=paired_correlation,
            tokens_per_turn=tokens_per_turn,
            tokens_per_s=tokens_per_s,
            gpus=gpus,
            alpha=alpha,
            power=wanted,
            pilot=pilot,
            class_=class_,
        )
    )
    out(encode(plan).decode() if as_json else "\n".join(_lines(plan)))
    return 0


def _lines(plan: PowerPlan) -> list[str]:
    """Return the plan as lines for a terminal."""
    lines = []
    if plan.rate_b is not None:
        lines += [
            f"{_percent(plan.rate_a)} against {_percent(plan.rate_b)}, {_percent(plan.power)} power,"
            f" two-sided {_percent(plan.alpha)}; design effect {plan.design_effect:.2f}"
            f" ({plan.cluster_size:.3g} turns an episode, ICC {plan.icc:.3g}),"
            f" correlation in pairs {plan.paired_correlation:.3g}",
            "",
            f"{'per arm':<44}{'turns':>10}{'episodes':>10}{'hours':>9}{'GPU-hours, both':>17}"
            + ("" if plan.turns is None else f"{f'power at {plan.turns:,}':>18}"),
        ]
        lines += [_row(_TITLES[name], design) for name, design in plan.designs.items()]
        if all(design.hours is None for design in plan.designs.values()):
            lines += ["", "hours need --tokens-per-turn and --tokens-per-s, or a pilot: --pilot RUN"]
    if plan.turns is not None:
        lines += ["", _shown(plan, plan.turns)]
    return lines


def _row(title: str, design: Design) -> str:
    cells = [
        f"{title:<44}",
        f"{'never' if design.turns is None else format(design.turns, ','):>10}",
        f"{'' if design.episodes is None else format(design.episodes, ','):>10}",
        f"{_number(design.hours):>9}{_number(design.gpu_hours):>17}",
        "" if design.power_at_turns is None else f"{design.power_at_turns:>18.0%}",
    ]
    return "".join(cells).rstrip()


def _shown(plan: PowerPlan, turns: int) -> str:
    if plan.detectable_rate_b is None:
        return f"{turns:,} turns per arm would not even tell {_percent(plan.rate_a)} from none at all"
    rate = plan.detectable_rate_b
    told = f"{turns:,} turns per arm tell {_percent(plan.rate_a)} from {_percent(rate)} or less"
    return f"{told} with {_percent(plan.power)} power"


def _percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.01 or value == 0 else "<0.01"

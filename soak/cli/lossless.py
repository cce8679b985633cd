"""The options of `soak probe --lossless`, and how it is carried out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from soak.app.probe.benches import Benches, ProbeOrder
from soak.app.probe.cases import case_of_file, cases_of_run
from soak.app.probe.lossless import LosslessOrder, plan_lossless, probe_lossless
from soak.app.reporting import lossless_page, page_tools, refuse_unwritable, write_file
from soak.app.sides import ArmSpec
from soak.cli.door import say
from soak.errors import UsageError
from soak.facts import Case, LosslessFound, ProbePlan
from soak.launch import checkpoint_of, read_defaults, sampling_defaults
from soak.probe.reference import ReferenceModel, ReferenceOrder

EXIT = {"no deviation found": 0, "deviates": 1, "not enough tokens": 3}

LosslessOption = Annotated[
    bool,
    typer.Option("--lossless", help="Do the sampled tokens follow the model's own law? Of many turns, or all of RUN."),
]
ControlOption = Annotated[
    int,
    typer.Option(min=0, max=1_000_000, help="With --lossless: answers of the plain server, scored too, for the noise."),
]
ArmOption = Annotated[str | None, typer.Option(help="With --lossless and no TURN: whose turns of the run.")]
DefaultsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="With --lossless: the server's generation_config.json, or none, where soak cannot know it."
    ),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="With --lossless: score by the model itself (a folder, Hub name, or build)."),
]
PrecisionOption = Annotated[Literal["float32", "bfloat16"], typer.Option(help="With --reference: its number format.")]
DeviceOption = Annotated[str, typer.Option(help="With --reference: cpu, cuda or cuda:1.")]
ChunkOption = Annotated[int, typer.Option(min=1, max=2**20, help="With --reference: tokens computed at once.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="With --lossless: write a page with the evidence.")
]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the command line says of the losslessness probe alone; `repeats` of 0 means the answers there are."""

    repeats: int
    control: int
    in_flight: int
    generation_config: str | None
    reference: str | None
    precision: Literal["float32", "bfloat16"]
    device: str
    chunk: int


def turns_of(run_dir: Path | None, turns: Sequence[str], files: Sequence[Path], arm: str | None) -> tuple[Case, ...]:
    """Return the turns that are meant: those named, the turn files, or all answered ones of a run's arm."""
    if files and run_dir is None:
        return tuple(map(case_of_file, files))
    if run_dir is not None and not files:
        return cases_of_run(run_dir, turns, arm)
    raise UsageError(
        "it is not clear which turns are meant",
        why="they are given as RUN, as RUN and TURN…, or as --turn-file FILE",
        hint="soak probe runs/mine --lossless",
    )


def order_of(told: Told, target: ArmSpec) -> LosslessOrder:
    """Return what is scored and by whom; raises `UsageError` for a generation config that cannot be read."""
    reference = _reference(told, target)
    return LosslessOrder(
        repeats=told.repeats,
        control=told.control,
        in_flight=told.in_flight,
        defaults=_defaults(told.generation_config, target),
        reference=None if reference is None else lambda: ReferenceModel(reference),
        reference_name=reference.name if reference else "",
    )


def _reference(told: Told, target: ArmSpec) -> ReferenceOrder | None:
    if told.reference is None:
        return None
    model = told.reference
    if target.build is not None and model in (target.target, target.build.name):
        model = checkpoint_of(target.build) or model
    return ReferenceOrder(model=model, precision=told.precision, device=told.device, chunk_tokens=told.chunk)


def _defaults(told: str | None, target: ArmSpec) -> dict[str, float] | None:
    """Return what the server takes where a request says nothing, as far as not neutral; None: not known."""
    if told == "none":
        return {}
    if told is not None:
        return read_defaults(Path(told))
    return sampling_defaults(target.build) if target.build is not None else None


@dataclass(frozen=True, kw_only=True)
class Testing:
    """The probe, ready to be carried out."""

    cases: Sequence[Case]
    order: ProbeOrder
    wanted: LosslessOrder
    html: Path | None = None

    def check(self) -> None:
        """Raise `UsageError` now where the page could not be written at the end."""
        if self.html is not None:
            page_tools()
            refuse_unwritable(self.html)

    def plan(self) -> ProbePlan:
        """Return what will be sent."""
        return plan_lossless(self.cases, self.wanted, self.order)

    def act(self, benches: Benches) -> LosslessFound:
        """Draw, score and judge; write the page if one is wanted."""
        found = probe_lossless(self.cases, self.wanted, benches)
        if self.html is not None:
            write_file(self.html, lossless_page(found))
            say(f"written: {self.html}")
        return found

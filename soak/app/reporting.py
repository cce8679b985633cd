"""`soak report` and the files that `soak compare` writes: pages and test results, made from run folders alone."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from soak import __version__
from soak.app.comparing import Compared, StoredArm, arms_of, baseline_first, compare_arms
from soak.app.judging import engine_turns_of
from soak.check import TurnFact
from soak.errors import UsageError
from soak.facts import EngineTurn, LosslessFound, TurnKey
from soak.report import ReportArm, ReportTurn
from soak.shelves import install_command
from soak.store import RunFolder

_LETTERS = "ABCDEF"
MAX_ARMS = len(_LETTERS)


def page_tools() -> ModuleType:
    """Return the module that makes pages; raises `UsageError` if what it needs is not installed."""
    try:
        from soak.report import html
    except ModuleNotFoundError as error:
        raise UsageError(
            "an HTML page cannot be made",
            why=f"{error.name} is not installed; it comes with the extra `report`, to keep a plain install small",
            hint=install_command("report"),
        ) from error
    return html


def report_arms(compared: Compared) -> tuple[ReportArm, ReportArm]:
    """Return the two sides of a comparison as a report without their turns sees them."""
    return _report_arm("baseline", compared.baseline), _report_arm("candidate", compared.candidate)


def comparison_page(compared: Compared) -> str:
    """Return the HTML page of a comparison; raises `UsageError` without the extra `report`."""
    tools = page_tools()
    with _with_turns([("baseline", compared.baseline), ("candidate", compared.candidate)]) as arms:
        page: str = tools.comparison_page(compared.comparison, arms, compared.gates)
    return page


def runs_page(paths: Sequence[Path]) -> str:
    """
    Return one HTML page of the runs at `paths`, judged again; where they have two arms in all, with their comparison.

    Raises `UsageError` without the extra `report` or with more arms than a page can tell apart, `RunFolderError`.
    """
    tools = page_tools()
    arms = [arm for path in paths for arm in arms_of(path)]
    if len(arms) > MAX_ARMS:
        raise UsageError(
            f"{len(arms)} arms do not fit one page",
            why=f"a plot can tell {MAX_ARMS} apart",
            hint="make several reports",
        )
    if len(arms) == 2:
        return comparison_page(compare_arms(*baseline_first(*arms)))
    summaries = list({arm.run: arm.summary for arm in arms}.values())
    with _with_turns([(_short_name(place, len(arms)), arm) for place, arm in enumerate(arms)]) as named:
        page: str = tools.runs_page(summaries, named)
    return page


def lossless_page(found: LosslessFound) -> str:
    """Return the HTML page of a losslessness probe; raises `UsageError` without the extra `report`."""
    page_tools()
    from soak.report import lossless_page as pages

    page: str = pages.lossless_page(found, __version__)
    return page


def _short_name(place: int, arms: int) -> str:
    """Return what the page calls an arm: a word of ours, for what a run folder calls it may be anything."""
    return "this run" if arms == 1 else _LETTERS[place]


@contextmanager
def _with_turns(arms: Sequence[tuple[str, StoredArm]]) -> Iterator[list[ReportArm]]:
    """Yield the arms under their names with all their turns, whose records are read while a page asks for them."""
    engine = {run: _engine_turns([arm for _, arm in arms if arm.run == run]) for run in {arm.run for _, arm in arms}}
    with ExitStack() as stack:
        yield [
            replace(
                _report_arm(name, stored),
                turns=[_report_turn(turn) for turn in stored.history.turns],
                engine=engine[stored.run],
                record=stack.enter_context(stored.reading()),
            )
            for name, stored in arms
        ]


def _engine_turns(arms: Sequence[StoredArm]) -> dict[TurnKey, EngineTurn]:
    """Return what the engines of one run did for the turns of these of its arms."""
    manifest = arms[0].history.manifest
    with RunFolder(arms[0].run, manifest).history() as history:
        return engine_turns_of(history, manifest, [turn for arm in arms for turn in arm.history.turns])


def _report_arm(name: str, stored: StoredArm) -> ReportArm:
    side = stored.history
    return ReportArm(
        name=name, label=side.label, run=str(stored.run), manifest=side.manifest, arm=side.arm, summary=side.summary
    )


def _report_turn(turn: TurnFact) -> ReportTurn:
    return ReportTurn(
        key=turn.key,
        class_=turn.class_ or turn.outcome,
        tokens=turn.completion,
        prompt=turn.prompt,
        started_at=turn.started_at if turn.finished else None,
    )


def refuse_unwritable(path: Path) -> None:
    """Raise `UsageError` if no file can be written at `path`, so that nobody waits for a report that is then lost."""
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UsageError(f"{path} cannot be written", why=why, hint="give the name of a file in a folder that exists")


def write_file(path: Path, text: str) -> None:
    """Write a report, whole or not at all; raises `UsageError` if the file cannot be written."""
    refuse_unwritable(path)
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", errors="replace", dir=path.parent, prefix=f".{path.name[:80]}.", delete=False
        ) as file:
            file.write(text)
        made = Path(file.name)
        made.chmod(0o644)  # a temporary file is made so that nobody else can read it
        made.replace(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written", why=error.strerror or str(error), hint="give a file in a folder you may write"
        ) from error

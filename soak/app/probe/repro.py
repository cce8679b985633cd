"""`soak repro`: a bundle that shows a failure to a maintainer who has nothing but Python."""

import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from soak import __version__
from soak.app.probe.benches import Benches, ProbeOrder
from soak.app.probe.kept import Asking, rehearsed
from soak.app.probe.shrink import ShrinkOrder, Shrunk, asked, found_of, heard, plan_shrink, shrink
from soak.app.reporting import refuse_unwritable
from soak.errors import NotReproducedError, UsageError
from soak.facts import Case, ProbePlan, ReproFound, Trial, TurnClass
from soak.probe import FRESH, Form, bundle_files, class_of, promise_of

_EPOCH = (1980, 1, 1, 0, 0, 0)  # a bundle of the same answers is the same bytes


def plan_repro(cases: Sequence[Case], order: ShrinkOrder, probing: ProbeOrder, *, shrinking: bool) -> ProbePlan:
    """Return what making a bundle will send at most: shrinking, and the rounds that the bundle promises from."""
    if shrinking:
        return msgspec.structs.replace(plan_shrink(cases, order, probing), probe="repro")
    requests = order.repeats * len(cases)
    plan = ProbePlan(
        probe="repro",
        case=", ".join(case.name for case in cases),
        requests=requests,
        output_tokens=requests * max(case.sampling.max_tokens for case in cases),
        servers=("as built",),
    )
    return rehearsed(plan, probing, lambda asking: _asked(cases, order, asking, shrinking=False))


def _asked(
    cases: Sequence[Case], order: ShrinkOrder, asking: Asking, *, shrinking: bool
) -> tuple[Shrunk, tuple[tuple[Trial, ...], ...]]:
    """Return the smallest form, and the trials of its cases: those of rounds that did not choose it."""
    before = Form(cases=tuple(cases), in_flight=order.in_flight)
    shrunk = shrink(before, order, asking) if shrinking else Shrunk(form=before, failure=None)
    # A smaller form was asked afresh to confirm it; of the whole the first rounds chose nothing. Both are kept.
    trials = asked(asking, shrunk.form, order.repeats, 0 if shrunk.form == before else FRESH)
    return shrunk, trials


def make_repro(
    cases: Sequence[Case], order: ShrinkOrder, benches: Benches, path: Path, *, shrinking: bool
) -> ReproFound:
    """
    Shrink the turns while they still fail, ask the smallest form once more, and write the bundle to `path`.

    Raises `NotReproducedError` where it did not fail at least twice: a bundle must show what it promises. Raises
    `TargetError` where nothing was answered, unless that is the failure.
    """
    refuse_unwritable(path)
    before = Form(cases=tuple(cases), in_flight=order.in_flight)
    with benches.open() as bench:
        shrunk, trials = _asked(cases, order, bench.asker, shrinking=shrinking)
        told = heard([trial for of_case in trials for trial in of_case], before, _first_failure(cases, shrunk))
        failure = _first_failure(cases, shrunk) or _most_frequent([class_of(trial) for trial in told])
        card = bench.side.card
        promise = promise_of(shrunk.form, trials, failure, repeats=order.repeats, soak_version=__version__)
        if promise.failed < 2:
            raise NotReproducedError(
                f"{failure} came in {promise.failed} of {promise.asked} answers",
                why="a bundle must show what it promises",
                hint="ask more often (--repeats), more at once (--in-flight), or the build it failed on (--target)",
            )
        if promise.script_failed < 2:
            raise NotReproducedError(
                f"the bundle's plain checker sees {promise.script_failed} of {promise.failed} {failure} answers",
                why="only soak's own classifiers see this failure, and a bundle must show what it promises",
                hint="send the smallest form as a turn file instead: soak probe --shrink",
            )
        files = bundle_files(
            shrunk.form,
            trials,
            failure,
            card,
            bench.side.capabilities,
            repeats=order.repeats,
            soak_version=__version__,
        )
    write_bundle(path, files)
    return ReproFound(file=str(path), promise=promise, shrink=found_of(before, shrunk) if shrinking else None)


def _first_failure(cases: Sequence[Case], shrunk: Shrunk) -> TurnClass | None:
    """Return the class the bundle shows: that of the turns when first asked; None where they do not say one."""
    if shrunk.failure is not None:
        return shrunk.failure
    first = {case.judgement.class_ for case in cases if case.judgement} - {"ok"}
    return first.pop() if len(first) == 1 else None


def _most_frequent(classes: Sequence[TurnClass]) -> TurnClass:
    bad = Counter(name for name in classes if name != "ok").most_common(1)
    return bad[0][0] if bad else "error"


def write_bundle(path: Path, files: Mapping[str, bytes]) -> None:
    """Write the zip, whole or not at all, in one folder named after it; raises `UsageError` if it cannot be written."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:80]}.", delete=False) as file:
            made = Path(file.name)
            try:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
                    for name, data in files.items():
                        bundle.writestr(_entry(f"{path.stem}/{name}"), data)
                made.chmod(0o644)
                made.replace(path)
            except BaseException:
                made.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written", why=error.strerror or str(error), hint="give a file in a folder you may write"
        ) from error


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info

"""Two arms' histories → `soak.comparison/1`: validity, each class, wall clock, one honest sentence."""

from collections.abc import Mapping

from soak.check.classes import compare_classes
from soak.check.pairing import ArmHistory, invalid_reasons, notes_on, pair_up
from soak.check.sentence import sentence_of
from soak.check.summary import scenario_of
from soak.check.wallclock import wall_clock
from soak.facts import ClassComparison, Comparison
from soak.facts.summary import Verdict

__all__ = ["ArmHistory", "compare"]


def compare(
    baseline: ArmHistory, candidate: ArmHistory, *, margin: float | None = None, min_turns: int | None = None
) -> Comparison:
    """
    Return the two arms side by side.

    Turns are paired by episode, turn and pass where both arms finished them; without any pair all finished turns are
    compared unpaired. `margin` is the largest difference of rates (a fraction) that does not matter; without it nothing
    is *equivalent*. `min_turns` (default: the baseline scenario's) is what a comparison needs at least.

    Verdict: *unknown* if `invalid` says anything; else *fail* if any class is a regression; *pass* if none is and the
    evidence is positive: a class improved, or all are equivalent; else *unknown*, for "no difference seen" is not
    "no difference". A result is improvement or regression only where the interval of the difference excludes 0 and the
    p-value, adjusted for all classes tested (Holm), is below 0.05.
    Raises `RunFolderError` if a manifest's scenario cannot be read.
    """
    needed = min_turns if min_turns is not None else scenario_of(baseline.manifest).thresholds.min_turns
    pairing = pair_up(baseline, candidate)
    invalid = invalid_reasons(baseline, candidate, pairing, min_turns=needed)
    classes, dependence_notes = compare_classes(pairing, margin=margin)
    notes = [*notes_on(baseline, candidate, pairing), *dependence_notes]
    clock = wall_clock(pairing)
    return Comparison(
        baseline=baseline.label,
        candidate=candidate.label,
        pairs=len(pairing.pairs),
        unpaired=len(pairing.baseline_alone) + len(pairing.candidate_alone),
        clusters=pairing.clusters,
        classes=classes,
        wall_clock=clock,
        invalid=invalid,
        verdict=_verdict(invalid, classes),
        sentence=sentence_of(classes, clock, invalid=invalid, notes=notes, pairing=pairing, margin=margin),
        notes=notes,
    )


def _verdict(invalid: list[str], classes: Mapping[str, ClassComparison]) -> Verdict:
    results = [found.result for found in classes.values()]
    if invalid:
        return "unknown"
    if "regression" in results:
        return "fail"
    if "improvement" in results or all(result == "equivalent" for result in results):
        return "pass"
    return "unknown"

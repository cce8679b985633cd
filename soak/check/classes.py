"""Each class of failure, counted in both arms: test, intervals, what it would take to know, and what may be said."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from soak.check.pairing import Pairing
from soak.check.wording import TITLES
from soak.facts import CLASSES, ClassComparison, Discordant, Events
from soak.facts.comparison import Result
from soak.stats import (
    Interval,
    PairedOutcome,
    PairedTest,
    by_cluster,
    cluster_difference,
    cluster_ratio,
    count_pairs,
    envelope,
    fisher,
    holm,
    newcombe_paired,
    newcombe_unpaired,
    paired_test,
    ratio_score,
    turns_needed_paired,
    turns_needed_unpaired,
)

ALPHA = 0.05
ANY_FAILURE = "any_failure"
CLASS_SETS: dict[str, frozenset[str]] = {
    **{name: frozenset((name,)) for name in CLASSES if name != "ok"},
    ANY_FAILURE: frozenset(name for name in CLASSES if name != "ok"),
}


class _Compared(NamedTuple):
    """One class before correction for asking about several."""

    figures: ClassComparison
    note: str | None = None


def compare_classes(pairing: Pairing, *, margin: float | None) -> tuple[dict[str, ClassComparison], list[str]]:
    """
    Return each class and "any_failure", and notes on failures that came in episodes.

    `p_adjusted` is Holm's over the classes that had an event in either arm (the others cannot differ); `any_failure`
    counts as one more question only where more than one class had events, else it is the same question again.
    """
    compared = {name: _compare(name, members, pairing) for name, members in CLASS_SETS.items()}
    adjusted = _adjust({name: found.figures for name, found in compared.items()})
    classes = {
        name: msgspec.structs.replace(
            found.figures, p_adjusted=adjusted.get(name), result=_result(found.figures, adjusted.get(name), margin)
        )
        for name, found in compared.items()
    }
    return classes, [found.note for found in compared.values() if found.note is not None]


def _compare(name: str, members: frozenset[str], pairing: Pairing) -> _Compared:
    return _paired(name, pairing.outcomes(members)) if pairing.pairs else _Compared(_unpaired(members, pairing))


def _paired(name: str, outcomes: list[PairedOutcome]) -> _Compared:
    counts, clusters = count_pairs(outcomes), by_cluster(outcomes)
    tested = paired_test(outcomes)
    baseline = (counts.both + counts.baseline_only, counts.pairs)
    candidate = (counts.both + counts.candidate_only, counts.pairs)
    difference, ratio = newcombe_paired(counts), ratio_score(baseline, candidate)
    if tested.by_cluster:  # an interval that took turns for independent would be too narrow
        difference = envelope(difference, cluster_difference(clusters))
        ratio = envelope(ratio, cluster_ratio(clusters))
    figures = msgspec.structs.replace(
        _figures(baseline, candidate, difference, ratio),
        discordant=Discordant(baseline_only=counts.baseline_only, candidate_only=counts.candidate_only),
        both=counts.both,
        p_value=tested.p_value,
        test=tested.test,
        turns_needed_80_paired=turns_needed_paired(
            counts.baseline_only / counts.pairs, counts.candidate_only / counts.pairs
        ),
    )
    hit = sum(cluster.baseline + cluster.candidate > 0 for cluster in clusters)
    return _Compared(figures, _clustering_note(name, tested, baseline[0] + candidate[0], hit, len(clusters)))


def _clustering_note(name: str, tested: PairedTest, events: int, hit: int, clusters: int) -> str | None:
    """Return a sentence where failures depend on one another or crowd in few episodes, else None."""
    where = f"{TITLES[name]}: {events} in {hit} of {clusters} episodes"
    if tested.by_cluster:
        return f"{where}; they come together, so the unit is the episode and more episodes are needed, not more turns"
    if events >= 4 and hit * 3 <= events:
        return f"{where}: few episodes carry the evidence"
    return None


def _unpaired(members: frozenset[str], pairing: Pairing) -> ClassComparison:
    first, second = pairing.finished()
    baseline = (sum(turn.class_ in members for turn in first), len(first))
    candidate = (sum(turn.class_ in members for turn in second), len(second))
    figures = _figures(baseline, candidate, newcombe_unpaired(baseline, candidate), ratio_score(baseline, candidate))
    return msgspec.structs.replace(
        figures, p_value=fisher(baseline, candidate), test="Fisher exact on unpaired turns, two-sided"
    )


def _figures(
    baseline: tuple[int, int], candidate: tuple[int, int], difference: Interval | None, ratio: Interval | None
) -> ClassComparison:
    """Return counts, rates and intervals; test and result are filled in by the caller."""
    rates = [events / turns if turns else None for events, turns in (baseline, candidate)]
    first, second = rates
    known = first is not None and second is not None
    return ClassComparison(
        baseline=Events(events=baseline[0], turns=baseline[1]),
        candidate=Events(events=candidate[0], turns=candidate[1]),
        discordant=Discordant(baseline_only=0, candidate_only=0),
        difference=second - first if first is not None and second is not None else None,
        ci95=(difference.low, difference.high) if difference is not None else None,
        rate_ratio=second / first if first and second is not None else None,
        rate_ratio_ci95=(ratio.low, ratio.high) if ratio is not None and math.isfinite(ratio.high) and first else None,
        p_value=None,
        test="none: no finished turns",
        turns_needed_80=turns_needed_unpaired(first or 0.0, second or 0.0) if known else None,
        result="inconclusive",
    )


def _adjust(classes: Mapping[str, ClassComparison]) -> dict[str, float]:
    """Return Holm's p-values for the classes that could differ."""
    p_values = {
        name: found.p_value
        for name, found in classes.items()
        if found.p_value is not None and found.baseline.events + found.candidate.events > 0
    }
    alone = [name for name in p_values if name != ANY_FAILURE]
    if len(alone) == 1:
        only = p_values[alone[0]]
        return {alone[0]: only, ANY_FAILURE: only}
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


def _result(figures: ClassComparison, p_adjusted: float | None, margin: float | None) -> Result:
    if figures.ci95 is None:
        return "inconclusive"
    interval = Interval(*figures.ci95)
    if margin is not None and interval.within(margin):
        return "equivalent"
    if p_adjusted is None or p_adjusted >= ALPHA or not interval.excludes(0.0):
        return "inconclusive"
    return "improvement" if interval.high < 0 else "regression"

"""Each class of failure, counted in both arms: test, intervals, evidence, what it would take, and what may be said."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from soak.check.evidence import Course, anytime_difference, anytime_turns, course_of, evidence_of, in_order_of_end
from soak.check.pairing import Pair, Pairing
from soak.check.stated import ALPHA, Terms
from soak.check.turns import TurnFact
from soak.check.wording import TITLES
from soak.facts import CLASSES, ClassComparison, Discordant, Events, Evidence, Needed, Rate
from soak.facts.comparison import Result
from soak.stats import (
    ArmsInCluster,
    ClusterCounts,
    Interval,
    PairedCounts,
    PairedEvents,
    PairedTest,
    anytime_rate,
    by_cluster,
    clopper_pearson,
    cluster_difference,
    cluster_difference_unpaired,
    cluster_ratio,
    count_pairs,
    design_effect,
    detectable_rate,
    envelope,
    fisher,
    holm,
    intra_cluster_correlation,
    newcombe_paired,
    newcombe_unpaired,
    paired_test,
    permuted_difference,
    ratio_score,
    swapped_clusters,
    turns_needed_paired,
    turns_needed_unpaired,
    uneven_difference,
    uneven_ratio,
    upper_bound,
)

ANY_FAILURE = "any_failure"
CLASS_SETS: dict[str, frozenset[str]] = {
    **{name: frozenset((name,)) for name in CLASSES if name != "ok"},
    ANY_FAILURE: frozenset(name for name in CLASSES if name != "ok"),
}
POWER = 0.8


class _Compared(NamedTuple):
    """One class before correction for asking about several, and how it came up over the conversations (if paired)."""

    figures: ClassComparison
    course: Course | None = None
    note: str | None = None


def compare_classes(
    pairing: Pairing, terms: Terms, *, turns_per_s: float | None
) -> tuple[dict[str, ClassComparison], list[str]]:
    """
    Return each class and "any_failure", and notes on failures that came in episodes.

    `p_adjusted` is Holm's over the classes that had an event in either arm (the others cannot differ); `any_failure`
    counts as one more question only where more than one class had events, else it is the same question again.
    `turns_per_s`: the pace at which both arms together came to paired turns.
    """
    conversations = in_order_of_end(pairing)
    compared = {name: _compare(name, members, pairing, conversations) for name, members in CLASS_SETS.items()}
    adjusted = _adjust({name: found.figures for name, found in compared.items()})
    classes = {}
    for name, found in compared.items():
        bar = _bar(name, adjusted, terms)
        figures = msgspec.structs.replace(
            found.figures,
            p_adjusted=adjusted.get(name),
            evidence=evidence_of(found.course, bar) if found.course is not None else None,
            needed=_needed(found, pairing, bar, turns_per_s),
        )
        classes[name] = msgspec.structs.replace(figures, result=_result(figures, found.course, terms))
    return classes, [found.note for found in compared.values() if found.note is not None]


def _compare(
    name: str, members: frozenset[str], pairing: Pairing, conversations: Sequence[Sequence[Pair]]
) -> _Compared:
    if pairing.own_ways:
        return _own_ways(members, pairing)
    if not pairing.pairs:
        return _unpaired(members, pairing)
    return _paired(name, pairing.events(members), course_of(conversations, members))


def _paired(name: str, events: PairedEvents, course: Course) -> _Compared:
    counts, clusters = count_pairs(events), by_cluster(events)
    tested = paired_test(events)
    baseline = (counts.both + counts.baseline_only, counts.pairs)
    candidate = (counts.both + counts.candidate_only, counts.pairs)
    # An interval that took turns for independent would be too narrow where they are not, and one by episodes too narrow
    # where few failed: the wider of both covers in either case (figures: soak/stats/README.md).
    difference = envelope(newcombe_paired(counts), cluster_difference(clusters))
    ratio = envelope(ratio_score(baseline, candidate), cluster_ratio(clusters))
    hit = sum(cluster.baseline + cluster.candidate > 0 for cluster in clusters)
    figures = msgspec.structs.replace(
        _figures(baseline, candidate, difference, ratio),
        discordant=Discordant(baseline_only=counts.baseline_only, candidate_only=counts.candidate_only),
        both=counts.both,
        p_value=tested.p_value,
        test=tested.test,
        turns_needed_80_paired=turns_needed_paired(
            counts.baseline_only / counts.pairs, counts.candidate_only / counts.pairs
        ),
        design_effect=design_effect(clusters, counts.baseline_only + counts.candidate_only),
        icc=_correlation(clusters, counts, events),
        failing_episodes=hit,
    )
    note = _clustering_note(name, tested, baseline[0] + candidate[0], hit, len(clusters))
    return _Compared(figures, course, note)


def _correlation(clusters: Sequence[ClusterCounts], counts: PairedCounts, events: PairedEvents) -> float | None:
    """Return how paired differences of one episode hang together; None where too few pairs differ to tell."""
    if counts.baseline_only + counts.candidate_only < 4:
        return None
    squares: dict[int, int] = defaultdict(int)
    for cluster in events.cluster[events.baseline != events.candidate].tolist():
        squares[cluster] += 1
    return intra_cluster_correlation(
        [cluster.turns for cluster in clusters],
        [cluster.candidate - cluster.baseline for cluster in clusters],
        [squares[i] for i in range(len(clusters))],
    )


def _clustering_note(name: str, tested: PairedTest, events: int, hit: int, clusters: int) -> str | None:
    """Return a sentence where failures depend on one another or crowd in few episodes, else None."""
    where = f"{TITLES[name]}: {events} in {hit} of {clusters} episodes"
    if tested.by_cluster:
        return f"{where}; they come together, so the unit is the episode and more episodes are needed, not more turns"
    if events >= 4 and hit * 3 <= events and hit * 2 <= clusters:
        return f"{where}: few episodes carry the evidence"
    return None


def _unpaired(members: frozenset[str], pairing: Pairing) -> _Compared:
    """Compare arms that share no turn: by turn while no episode failed twice, else by whole episodes."""
    arms = pairing.finished()
    baseline, candidate = ((sum(turn.class_ in members for turn in turns), len(turns)) for turns in arms)
    difference, ratio = newcombe_unpaired(baseline, candidate), ratio_score(baseline, candidate)
    p_value, test = fisher(baseline, candidate), "Fisher exact on unpaired turns, two-sided"
    first, second = (_by_episode(turns, members) for turns in arms)
    if any(events > 1 for events, _ in (*first, *second)):
        p_value, test = permuted_difference(first, second), "permutation of whole episodes between arms, two-sided"
        difference = envelope(difference, cluster_difference_unpaired(first, second))
    figures = _figures(baseline, candidate, difference, ratio)
    return _Compared(msgspec.structs.replace(figures, p_value=p_value, test=test))


def _own_ways(members: frozenset[str], pairing: Pairing) -> _Compared:
    """
    Compare arms that went their own ways in the same episodes: episode against episode, never turn against turn.

    What is counted are the turns of episodes that both ran, as in the intervals and the test; all if there are none.
    The intervals are joined with those by turn, as in `_paired`: by episodes alone no event at all would be certainty.
    """
    first, second = (_cells(turns, members) for turns in pairing.finished())
    shared = sorted(first.keys() & second.keys())
    baseline, candidate = (_summed(side[name] for name in shared or side) for side in (first, second))
    clusters = [ArmsInCluster(*first[name][::-1], *second[name][::-1]) for name in shared]
    difference, ratio = uneven_difference(clusters), uneven_ratio(clusters)
    if shared:
        difference = envelope(newcombe_unpaired(baseline, candidate), difference)
        ratio = envelope(ratio_score(baseline, candidate), ratio)
    figures = _figures(baseline, candidate, difference, ratio)
    p_value, test = swapped_clusters(clusters), "sign-flip over episodes of the arms' own conversations, two-sided"
    hit = sum(cluster.baseline_events + cluster.candidate_events > 0 for cluster in clusters)
    return _Compared(msgspec.structs.replace(figures, p_value=p_value, test=test, failing_episodes=hit))


def _summed(cells: Iterable[tuple[int, int]]) -> tuple[int, int]:
    known = list(cells)
    return sum(events for events, _ in known), sum(turns for _, turns in known)


def _by_episode(turns: Sequence[TurnFact], members: frozenset[str]) -> list[tuple[int, int]]:
    return list(_cells(turns, members).values())


def _cells(turns: Sequence[TurnFact], members: frozenset[str]) -> dict[str, tuple[int, int]]:
    """Return (events, turns) of each episode."""
    cells: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for turn in turns:
        cells[turn.key.episode][0] += turn.class_ in members
        cells[turn.key.episode][1] += 1
    return {episode: (events, count) for episode, (events, count) in cells.items()}


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
        discordant=None,
        difference=second - first if first is not None and second is not None else None,
        ci95=(difference.low, difference.high) if difference is not None else None,
        rate_ratio=second / first if first and second is not None else None,
        rate_ratio_ci95=(ratio.low, ratio.high) if ratio is not None and math.isfinite(ratio.high) and first else None,
        p_value=None,
        test="none: no finished turns",
        turns_needed_80=turns_needed_unpaired(first or 0.0, second or 0.0) if known else None,
        result="inconclusive",
        baseline_rate=_rate(*baseline),
        candidate_rate=_rate(*candidate),
    )


def _rate(events: int, turns: int) -> Rate | None:
    limits, bound = clopper_pearson(events, turns), upper_bound(events, turns)
    if limits is None or bound is None:
        return None
    anytime = anytime_rate(events, turns)
    return Rate(
        rate=events / turns,
        ci95=(limits.low, limits.high),
        upper95=bound,
        anytime95=(anytime.low, anytime.high),
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


def _bar(name: str, adjusted: Mapping[str, float], terms: Terms) -> float:
    """
    Return the e-value that decides: 1/alpha times the questions asked (the union bound).

    Those the scenario asks; of a class it does not ask about, all that had events.
    """
    if terms.decide is not None and name in terms.decide.classes:
        return len(terms.decide.classes) / terms.alpha
    alone = [asked for asked in adjusted if asked != ANY_FAILURE]
    return max(1, len(alone) + (len(alone) > 1)) / terms.alpha


def _needed(found: _Compared, pairing: Pairing, bar: float, turns_per_s: float | None) -> Needed | None:
    figures = found.figures
    seen = min(figures.baseline.turns, figures.candidate.turns)
    if not seen:
        return None
    alone = figures.turns_needed_80 if figures.both is None else figures.turns_needed_80_paired
    turns = None if alone is None else math.ceil(alone * max(1.0, figures.design_effect or 1.0))
    lower = detectable_rate(figures.baseline.events / figures.baseline.turns, seen)
    return Needed(
        power=POWER,
        turns=turns,
        episodes=None if turns is None else math.ceil(turns * pairing.clusters / seen),
        hours=None if turns is None or not turns_per_s else turns / turns_per_s / 3600,
        anytime_turns=anytime_turns(found.course, bar) if found.course is not None else None,
        seen_turns=seen,
        detectable_events=None if lower is None else int(lower * figures.baseline.turns),
    )


def _result(figures: ClassComparison, course: Course | None, terms: Terms) -> Result:
    if terms.decide is not None and figures.evidence is not None and course is not None:
        return _by_evidence(figures.evidence, anytime_difference(course, terms.alpha), terms.margin)
    if figures.ci95 is None:
        return "inconclusive"
    interval = Interval(*figures.ci95)
    if terms.margin is not None and interval.within(terms.margin):
        return "equivalent"
    if figures.p_adjusted is None or figures.p_adjusted >= ALPHA or not interval.excludes(0.0):
        return "inconclusive"
    return "improvement" if interval.high < 0 else "regression"


def _by_evidence(evidence: Evidence, interval: Interval, margin: float | None) -> Result:
    """Return the result of a run that could stop by its evidence: only what may be looked at all the time counts."""
    if evidence.decided_after is not None and evidence.direction is not None:
        return evidence.direction
    return "equivalent" if margin is not None and interval.within(margin) else "inconclusive"

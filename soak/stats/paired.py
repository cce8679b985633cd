"""Which test fits paired turns: McNemar while turns look independent, sign-flip over episodes once they do not."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from soak.stats.clusters import ClusterCounts
from soak.stats.dependence import adjacency_p, sign_clustering_p
from soak.stats.exact import mcnemar_exact, sign_flip
from soak.stats.rates import PairedCounts

DEPENDENCE_ALPHA = 0.2
"""Either diagnostic below this and the unit becomes the episode: measured in README.md, "which test when"."""


class PairedEvents(NamedTuple):
    """Which arm had the event in each pair, with the numbers of its cluster and conversation; in turn order."""

    cluster: np.ndarray
    conversation: np.ndarray
    baseline: np.ndarray
    candidate: np.ndarray


class PairedTurns:
    """
    The turns both arms finished: element i of each sequence is one pair's cluster, conversation and place in it.

    Made once for a comparison; `events` lays one class of event over it.
    """

    def __init__(self, clusters: Sequence[Hashable], conversations: Sequence[Hashable], turns: Sequence[int]) -> None:
        conversation = _numbered(conversations)
        self._order = np.lexsort((np.asarray(turns, dtype=np.int64), conversation))
        self._cluster = _numbered(clusters)[self._order]
        self._conversation = conversation[self._order]

    def events(self, baseline: Sequence[bool], candidate: Sequence[bool]) -> PairedEvents:
        """Return which arm had the event, given in the order of the pairs."""
        first, second = (np.asarray(flags, dtype=bool)[self._order] for flags in (baseline, candidate))
        return PairedEvents(self._cluster, self._conversation, first, second)


class PairedTest(NamedTuple):
    """
    The p-value and the test it is of. `by_cluster`: turns depend on one another, so the unit is the episode.

    `sign_clustering`, `adjacency`: p-values of the two diagnostics, None where there is too little to tell.
    """

    p_value: float
    test: str
    by_cluster: bool
    sign_clustering: float | None
    adjacency: float | None


def paired_test(events: PairedEvents, *, seed: int = 0) -> PairedTest:
    """
    Return the test of "no difference between the arms" for one event over paired turns.

    The adaptive rule: McNemar exact, unless discordant turns of an episode lean to one arm or failing turns follow one
    another (either diagnostic below 0.2); then sign-flip over episodes. Type I errors: README.md beside this file.
    """
    signs = sign_clustering_p(_discordant(events), seed=seed)
    adjacency = adjacency_p(_sequences(events))
    if any(p is not None and p < DEPENDENCE_ALPHA for p in (signs, adjacency)):
        p_value = sign_flip(cluster_differences(events))
        return PairedTest(p_value, "sign-flip over episodes, exact, two-sided", True, signs, adjacency)
    counts = count_pairs(events)
    p_value = mcnemar_exact(counts.baseline_only, counts.candidate_only)
    return PairedTest(p_value, "McNemar exact on paired turns, two-sided", False, signs, adjacency)


def count_pairs(events: PairedEvents) -> PairedCounts:
    """Return the 2×2 table of the pairs."""
    cells = np.bincount(2 * events.baseline.astype(np.int64) + events.candidate, minlength=4)
    neither, candidate_only, baseline_only, both = (int(cell) for cell in cells)
    return PairedCounts(both, baseline_only, candidate_only, neither)


def by_cluster(events: PairedEvents) -> list[ClusterCounts]:
    """Return turns and events of each cluster, in order of first appearance."""
    turns = np.bincount(events.cluster)
    baseline = np.bincount(events.cluster, events.baseline, len(turns))
    candidate = np.bincount(events.cluster, events.candidate, len(turns))
    return [ClusterCounts(int(n), int(b), int(c)) for n, b, c in zip(turns, baseline, candidate, strict=True)]


def cluster_differences(events: PairedEvents) -> list[int]:
    """Return, per cluster, events of the candidate − events of the baseline."""
    return [cluster.candidate - cluster.baseline for cluster in by_cluster(events)]


def _discordant(events: PairedEvents) -> list[tuple[int, int]]:
    """Return (baseline only, candidate only) of every cluster."""
    count = int(events.cluster.max(initial=-1)) + 1
    first = np.bincount(events.cluster, events.baseline & ~events.candidate, count)
    second = np.bincount(events.cluster, events.candidate & ~events.baseline, count)
    return [(int(b), int(c)) for b, c in zip(first, second, strict=True)] or [(0, 0)]


def _sequences(events: PairedEvents) -> list[list[bool]]:
    """Return, per conversation and arm with two failures or more, whether each turn had the event, in turn order."""
    ends = np.flatnonzero(np.diff(events.conversation)) + 1
    found: list[list[bool]] = []
    for flags in (events.baseline, events.candidate):
        failures = np.bincount(events.conversation, flags)
        several = set(np.flatnonzero(failures >= 2).tolist())
        starts = [0, *ends.tolist()] if several else []
        found += [
            part.tolist()
            for start, part in zip(starts, np.split(flags, ends), strict=False)
            if int(events.conversation[start]) in several
        ]
    return found


def _numbered(labels: Sequence[Hashable]) -> np.ndarray:
    """Return each label's number, counted from 0 in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.fromiter((numbers.setdefault(label, len(numbers)) for label in labels), dtype=np.int64, count=len(labels))

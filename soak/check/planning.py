"""What a comparison would need before it is run: turns, episodes, hours and GPU-hours, design by design."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from soak.check.classes import CLASS_SETS
from soak.check.pairing import ArmHistory, Pairing, pair_up
from soak.check.turns import TurnFact
from soak.stats import (
    PairRates,
    by_cluster,
    clustering_factor,
    count_pairs,
    detectable_rate,
    intra_cluster_correlation,
    pair_rates,
    power_paired,
    turns_for_power,
    turns_needed_unpaired,
    turns_to_decision,
)

Name = Literal["unpaired", "paired", "clustered", "sequential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What a run told for planning; None where it could not be measured."""

    rate: float | None = None
    icc: float | None = None
    paired_correlation: float | None = None
    cluster_size: float | None = None
    tokens_per_turn: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    What is to be told apart, and how the turns hang together.

    `icc`: correlation of two turns of one episode; `cluster_size`: turns an episode has in all its passes.
    `paired_correlation`: of one turn's outcomes in the two arms. `tokens_per_s`: what one arm's server generates.
    """

    rate_a: float
    rate_b: float | None = None
    turns: int | None = None
    icc: float = 0.0
    cluster_size: float = 1.0
    paired_correlation: float = 0.0
    tokens_per_turn: float | None = None
    tokens_per_s: float | None = None
    gpus: int = 1
    alpha: float = 0.05
    power: float = 0.8


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """
    What one design needs. `turns` and `hours` are per arm; `gpu_hours` is for both. None: unknown, or never enough.

    `power_at_turns`: its power at the number of turns that was asked about (of the exact test, at the planned alpha).
    """

    turns: int | None
    episodes: int | None
    hours: float | None
    gpu_hours: float | None
    power_at_turns: float | None = None


class PowerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """
    `soak.power/1`: the designs by name, and the question they answer.

    unpaired: each turn in one arm only. paired: each in both, failures recurring as stated. clustered: paired, in
    episodes whose turns hang together as stated. sequential: clustered, watched with anytime evidence; its turns are
    what it takes typically. `design_effect` = 1 + (cluster size − 1)·ICC. `detectable_rate_b`: the largest lower rate
    that the asked number of turns shows, clustering allowed for (None: not even 0).
    """

    schema: str = "soak.power/1"
    rate_a: float
    rate_b: float | None
    alpha: float
    power: float
    icc: float
    cluster_size: float
    paired_correlation: float
    design_effect: float
    turns: int | None
    detectable_rate_b: float | None
    designs: dict[Name, Design]


def plan_power(question: Question) -> PowerPlan:
    """Return what each design needs to tell the two rates apart; without `rate_b` only what `turns` would show."""
    effect = clustering_factor(question.cluster_size, question.icc)
    seen = None
    if question.turns is not None:
        seen = detectable_rate(
            question.rate_a, math.floor(question.turns / effect), alpha=question.alpha, power=question.power
        )
    return PowerPlan(
        rate_a=question.rate_a,
        rate_b=question.rate_b,
        alpha=question.alpha,
        power=question.power,
        icc=question.icc,
        cluster_size=question.cluster_size,
        paired_correlation=question.paired_correlation,
        design_effect=effect,
        turns=question.turns,
        detectable_rate_b=seen,
        designs={} if question.rate_b is None else _designs(question, question.rate_b, effect),
    )


def _designs(question: Question, rate_b: float, effect: float) -> dict[Name, Design]:
    alpha, power = question.alpha, question.power
    alone = pair_rates(question.rate_a, rate_b)
    together = pair_rates(question.rate_a, rate_b, question.paired_correlation)
    paired = turns_for_power(together, alpha=alpha, power=power)
    watched = turns_to_decision(together, bar=1 / alpha, cluster_size=question.cluster_size, factor=effect)
    return {
        "unpaired": _design(
            question,
            turns_needed_unpaired(question.rate_a, rate_b, alpha=alpha, power=power),
            _power_at(question, alone, 1.0),
        ),
        "paired": _design(question, paired, _power_at(question, together, 1.0)),
        "clustered": _design(
            question, None if paired is None else math.ceil(paired * effect), _power_at(question, together, effect)
        ),
        "sequential": _design(question, watched, None),
    }


def _power_at(question: Question, rates: PairRates, effect: float) -> float | None:
    return None if question.turns is None else power_paired(question.turns / effect, rates, alpha=question.alpha)


def _design(question: Question, turns: int | None, power: float | None) -> Design:
    hours = None
    if turns is not None and question.tokens_per_turn and question.tokens_per_s:
        hours = turns * question.tokens_per_turn / question.tokens_per_s / 3600
    return Design(
        turns=turns,
        episodes=None if turns is None else math.ceil(turns / question.cluster_size),
        hours=hours,
        gpu_hours=None if hours is None else 2 * hours * question.gpus,
        power_at_turns=power,
    )


def pilot_of(arms: Sequence[ArmHistory], class_: str) -> Pilot:
    """
    Return what a run of one or two arms tells about one class of failure, for planning.

    With two arms the correlations are those of pairs, which is what a paired comparison meets; with one, the ICC is of
    single turns, which is larger where a conversation fails alike in both arms.
    """
    members, first = CLASS_SETS[class_], arms[0]
    turns = [turn for turn in first.turns if turn.finished]
    tokens, wall_s = first.summary.tokens.completion, first.summary.wall_s
    pairing = pair_up(*arms[:2]) if len(arms) > 1 else None
    icc = _icc(turns, members)
    return Pilot(
        rate=sum(turn.class_ in members for turn in turns) / len(turns) if turns else None,
        icc=icc if pairing is None else _paired_icc(pairing, members),
        paired_correlation=None if pairing is None else _phi(pairing, members),
        cluster_size=len(turns) / len({turn.key.episode for turn in turns}) if turns else None,
        tokens_per_turn=tokens / len(turns) if tokens is not None and turns else None,
        tokens_per_s=tokens / wall_s if tokens is not None and wall_s > 0 else None,
    )


def _icc(turns: Sequence[TurnFact], members: frozenset[str]) -> float | None:
    cells: dict[str, list[int]] = {}
    for turn in turns:
        cell = cells.setdefault(turn.key.episode, [0, 0])
        cell[0] += 1
        cell[1] += turn.class_ in members
    failures = [failed for _, failed in cells.values()]
    return intra_cluster_correlation([count for count, _ in cells.values()], failures, failures)


def _paired_icc(pairing: Pairing, members: frozenset[str]) -> float | None:
    events = pairing.events(members)
    clusters = by_cluster(events)
    squares = [0] * len(clusters)
    for cluster in events.cluster[events.baseline != events.candidate].tolist():
        squares[cluster] += 1
    differences = [cluster.candidate - cluster.baseline for cluster in clusters]
    return intra_cluster_correlation([cluster.turns for cluster in clusters], differences, squares)


def _phi(pairing: Pairing, members: frozenset[str]) -> float | None:
    """Return the correlation of one turn's outcomes in the two arms; None where an arm never or always failed."""
    both, first, second, neither = count_pairs(pairing.events(members))
    spread = (both + first) * (second + neither) * (both + second) * (first + neither)
    return (both * neither - first * second) / math.sqrt(spread) if spread else None

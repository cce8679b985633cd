"""How far conversations came before their first failure: turns, tokens and seconds, arm by arm."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from soak.check.pairing import Pairing, conversation_of
from soak.check.turns import TurnFact
from soak.facts import Survival, SurvivalCurve
from soak.stats import Lives, kaplan_meier, log_rank, log_rank_paired, median_life

Unit = Literal["turns", "tokens", "s"]
_UNITS: tuple[Unit, ...] = ("turns", "tokens", "s")


class _Life(NamedTuple):
    """One conversation in one arm: how far it came in each unit, and whether it failed there."""

    turns: float
    tokens: float
    s: float
    failed: bool


def compare_survival(pairing: Pairing) -> list[Survival]:
    """
    Return the way to the first failure in each unit, over the paired turns (all finished ones where there is no pair).

    A conversation whose turns all went well is censored at its end.
    """
    if pairing.pairs:
        together = list(pairing.conversations())
        lives = [
            [_life([pair.baseline for pair in pairs]) for pairs in together],
            [_life([pair.candidate for pair in pairs]) for pairs in together],
        ]
        clusters = [pairs[0].baseline.key.episode for pairs in together]
        return [_survival(unit, lives, clusters) for unit in _UNITS]
    return [_survival(unit, [_lives(turns) for turns in pairing.finished()], None) for unit in _UNITS]


def _survival(unit: Unit, arms: Sequence[Sequence[_Life]], clusters: Sequence[str] | None) -> Survival:
    first, second = (Lives([getattr(life, unit) for life in lives], [life.failed for life in lives]) for lives in arms)
    return Survival(
        unit=unit,
        baseline=_curve(first),
        candidate=_curve(second),
        p_log_rank=log_rank(first, second),
        p_value=log_rank_paired(first, second, clusters) if clusters is not None else None,
    )


def _curve(lives: Lives) -> SurvivalCurve:
    curve = kaplan_meier(lives)
    return SurvivalCurve(
        conversations=len(lives.reached), failed=sum(lives.failed), median=median_life(curve), curve=curve
    )


def _lives(turns: Sequence[TurnFact]) -> list[_Life]:
    conversations: dict[tuple[str, int], list[TurnFact]] = {}
    for turn in turns:
        conversations.setdefault(conversation_of(turn), []).append(turn)
    return [_life(sorted(own, key=lambda turn: turn.key.turn)) for own in conversations.values()]


def _life(turns: Sequence[TurnFact]) -> _Life:
    """Return how far a conversation came, its failing turn included."""
    tokens, seconds = 0, 0.0
    for count, turn in enumerate(turns, 1):
        tokens += turn.completion or 0
        seconds += turn.turn_s or 0.0
        if turn.class_ != "ok":
            return _Life(count, tokens, seconds, failed=True)
    return _Life(len(turns), tokens, seconds, failed=False)

"""Anytime-valid evidence of a finished comparison, conversation by conversation in the order in which they ended."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from soak.check.pairing import Pair, Pairing
from soak.facts import Evidence
from soak.stats import DifferenceMeter, EvidenceMeter, Interval, log_evidence

Direction = Literal["improvement", "regression"]

_PATH_POINTS = 200
_LOG_E_MAX = 600.0  # an e-value beyond e^600 is shown as that


class Course(NamedTuple):
    """Per conversation, in the order of their ends: paired turns, and each arm's events of one class among them."""

    turns: list[int]
    baseline: list[int]
    candidate: list[int]

    @property
    def differences(self) -> list[int]:
        """The candidate's events − the baseline's, per conversation."""
        return [second - first for first, second in zip(self.baseline, self.candidate, strict=True)]


def in_order_of_end(pairing: Pairing) -> list[list[Pair]]:
    """
    Return the pairs of each conversation, conversations in the order in which both arms' turns of them had ended.

    For two runs that is the order of the later one: any order will do that does not know which arm failed.
    """
    return sorted(pairing.conversations(), key=_ended_at)


def _ended_at(pairs: Sequence[Pair]) -> float:
    return max(turn.started_at + (turn.turn_s or 0.0) for turn in pairs[-1])


def course_of(conversations: Sequence[Sequence[Pair]], classes: frozenset[str]) -> Course:
    """Return how one class came up over the conversations."""
    return Course(
        [len(pairs) for pairs in conversations],
        [sum(pair.baseline.class_ in classes for pair in pairs) for pairs in conversations],
        [sum(pair.candidate.class_ in classes for pair in pairs) for pairs in conversations],
    )


def evidence_of(course: Course, bar: float) -> Evidence:
    """Return the evidence about one class; `bar` is what decides."""
    path, differences = log_evidence(course.differences), course.differences
    so_far = list(accumulate(course.turns))
    decided = next((i for i, value in enumerate(path) if value >= math.log(bar)), None)
    until = len(path) if decided is None else decided + 1
    return Evidence(
        e_value=_e(path[-1]) if path else 1.0,
        e_value_max=_e(max(path)) if path else 1.0,
        bar=bar,
        conversations=len(path),
        direction=direction_of(_meter(differences[:until]).direction),
        decided_after=None if decided is None else so_far[decided],
        path=_thinned([(turns, _e(value)) for turns, value in zip(so_far, path, strict=True)]),
    )


def anytime_turns(course: Course, bar: float) -> int | None:
    """Return how many pairs the evidence takes to reach `bar` if all goes on as it did; None if it never does."""
    factor = _meter(course.differences).factor_needed(bar)
    return None if factor is None else math.ceil(factor * sum(course.turns))


def anytime_difference(course: Course, alpha: float) -> Interval:
    """Return the interval of the difference of rates that may be looked at after every conversation."""
    meter = DifferenceMeter()
    for conversation in zip(*course, strict=True):
        meter.add(*conversation)
    return meter.interval(alpha)


def direction_of(sign: int) -> Direction | None:
    """Return what the sign of the candidate's events − the baseline's speaks for."""
    return None if not sign else ("regression" if sign > 0 else "improvement")


def _meter(differences: Sequence[int]) -> EvidenceMeter:
    meter = EvidenceMeter()
    for difference in differences:
        if difference:
            meter.add(difference)
    return meter


def _e(log_e: float) -> float:
    return math.exp(min(log_e, _LOG_E_MAX))


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most 200 points, the last among them."""
    step = -(-len(points) // _PATH_POINTS) or 1
    return points[::-1][::step][::-1]

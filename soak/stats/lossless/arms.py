"""An arm: its outputs, the rows of every token that can be tested, and the noise a healthy one shows."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from soak.facts import LeftOut, RescoredOutput, RescoringCard
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.evidence import Rates
from soak.stats.lossless.scores import Scores, joined, scores_of
from soak.stats.lossless.tables import Refused, tables_of
from soak.stats.rates import upper_bound


class Noise(NamedTuple):
    """
    What a healthy pair of servers was measured to do, from `measured_noise`.

    `deviation`: of reported minus scored log probabilities, in nats; None where no token reported its own. `rates`: how
    often tokens are outside and impossible where nothing is wrong.
    """

    deviation: float | None
    rates: Rates


class Arm(NamedTuple):
    """Outputs in their order with the rows of all tested tokens, and what was left out."""

    outputs: Sequence[RescoredOutput]
    scores: Scores | None
    left_out: tuple[LeftOut, ...]

    @property
    def tokens(self) -> int:
        """How many tokens the outputs hold, tested or not."""
        return sum(output.tokens for output in self.outputs)


def read_arm(card: RescoringCard, outputs: Iterable[RescoredOutput], bars: Bars, noise: Noise | None = None) -> Arm:
    """Return the rows of every output that can be tested; the others are named in `left_out`."""
    spread = bars.greedy_noise
    if noise is not None and noise.deviation is not None:
        spread = math.sqrt(2) * noise.deviation  # a gap is the difference of two log probabilities
    kept, parts = list(outputs), []
    reasons: dict[str, list[int]] = {}
    for number, output in enumerate(kept):
        tables = tables_of(output, card.vocabulary)
        if isinstance(tables, Refused):
            reasons.setdefault(tables.reason, []).append(output.tokens)
            continue
        rows = scores_of(output, tables, number, card.vocabulary, bars, spread)
        if len(rows.output) < output.tokens:
            reasons.setdefault("forced, or without a list", []).append(output.tokens - len(rows.output))
        parts.append(rows)
    left = tuple(LeftOut(tokens=sum(found), outputs=len(found), reason=why) for why, found in sorted(reasons.items()))
    scores = joined(parts) if parts else None
    return Arm(kept, scores if scores is not None and len(scores.output) else None, left)


def measured_noise(control: Arm, bars: Bars) -> Noise:
    """
    Return the noise a control shows: a plain arm of the same engine, scored by the same reference.

    Rates stay as assumed while the control has no such token: too short a control would only widen them. Else they are
    the 95 % upper bounds of what it has.
    """
    if control.scores is None:
        return Noise(None, Rates(bars.outside_rate, bars.impossible_rate))
    tokens = len(control.scores.output)
    rates = [
        max(assumed, upper_bound(int(hits.sum()), tokens) or 1.0) if hits.any() else assumed
        for hits, assumed in (
            (control.scores.outside, bars.outside_rate),
            (control.scores.impossible, bars.impossible_rate),
        )
    ]
    return Noise(_deviation(control), Rates(*rates))


def _deviation(control: Arm) -> float | None:
    parts = []
    for output in control.outputs:
        if output.reported_logprobs is not None and not output.problem:
            own, scored = (np.frombuffer(table, "<f4") for table in (output.reported_logprobs, output.logprobs))
            known = np.isfinite(own) & np.isfinite(scored)
            parts.append(own[known].astype(float) - scored[known])
    found = np.concatenate(parts) if parts else np.empty(0)
    return float(np.sqrt(np.mean(np.minimum(found**2, 4.0)))) if len(found) >= 100 else None

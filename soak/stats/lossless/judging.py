"""From outputs with their scores to one result: what the tests found, where, and what remains possible."""

import math
from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from soak.facts import (
    EvidenceCurve,
    LosslessBounds,
    LosslessOnset,
    LosslessResult,
    LosslessTest,
    LosslessVerdict,
    RescoredOutput,
    RescoringCard,
)
from soak.stats.lossless.arms import Arm, measured_noise, read_arm
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.control import contrast
from soak.stats.lossless.evidence import Rates, mean_evidence, wrong_tokens_bound
from soak.stats.lossless.onset import onset_of_outside, onset_of_shift
from soak.stats.lossless.scores import Scores
from soak.stats.lossless.strata import shift_bound
from soak.stats.lossless.suspects import worst_tokens
from soak.stats.lossless.testing import bounded, contrast_test, evidence_of, tests_of
from soak.stats.lossless.wording import blind_spots, caveats, sentence_of

_POINTS = 240
_LOG10 = math.log(10)


def judge(
    card: RescoringCard,
    outputs: Iterable[RescoredOutput],
    *,
    control: Iterable[RescoredOutput] | None = None,
    peeking: bool = False,
    bars: Bars | None = None,
) -> LosslessResult:
    """
    Return the result of one run.

    `control`: outputs of a plain arm scored by the same reference; it sets the noise and adds a test. `peeking`: only
    tests that may be looked at after every token decide (for a run stopped on this result). The order of `outputs` is
    that of time. No more than `false_alarm` of healthy runs deviate (`bars`).
    """
    bars = bars or Bars()
    plain = None if control is None else read_arm(card, control, bars)
    noise = None if plain is None else measured_noise(plain, bars)
    arm = read_arm(card, outputs, bars, noise)
    controlled = plain is not None and plain.scores is not None
    if arm.scores is None:
        return _nothing(card, arm, bars, caveats(controlled=controlled))
    rates = Rates(bars.outside_rate, bars.impossible_rate) if noise is None else noise.rates
    logs = evidence_of(arm.scores, rates, bars)
    tests = tests_of(arm.scores, logs, rates, bars)
    if plain is not None and plain.scores is not None:
        names = ([output.key.episode for output in arm.outputs], [output.key.episode for output in plain.outputs])
        tests.append(contrast_test(contrast(arm.scores, plain.scores, names, bars), bars))
    deciding = [test for test in tests if test.anytime or not peeking]
    found = _result(card, arm, arm.scores, (tests, deciding), logs, rates, bars)
    return replace(found, caveats=(*caveats(controlled=controlled), *found.caveats))


def verdict_of(scores: Scores, deciding: list[LosslessTest], bars: Bars) -> LosslessVerdict:
    """Return the result the tests lead to: any alarm deviates; without one it takes enough tokens to say so."""
    if any(test.alarms for test in deciding):
        return "deviates"
    return "no deviation found" if known_tokens(scores) >= bars.tokens_enough else "not enough tokens"


def known_tokens(scores: Scores) -> int:
    """Return how many tokens stand where the law is known well enough to be tested."""
    return int((scores.steady | ~scores.drawn).sum())


def _result(
    card: RescoringCard,
    arm: Arm,
    scores: Scores,
    tests: tuple[list[LosslessTest], list[LosslessTest]],
    logs: dict[str, np.ndarray],
    rates: Rates,
    bars: Bars,
) -> LosslessResult:
    every, deciding = tests
    alarms = [test for test in deciding if test.alarms]
    verdict = verdict_of(scores, deciding, bars)
    bounds = LosslessBounds(mean_shift=shift_bound(scores), wrong_tokens=wrong_tokens_bound(scores))
    worst = worst_tokens(scores, arm.outputs, bars)
    combined = mean_evidence(list(logs.values())) if logs else np.zeros(1)
    return LosslessResult(
        result=verdict,
        sentence=sentence_of(verdict, alarms, bounds, worst[0], known_tokens(scores), bars),
        outputs=len(arm.outputs),
        tokens=arm.tokens,
        tested=len(scores.output),
        left_out=arm.left_out,
        bounds=bounds,
        log10_evidence=bounded(float(combined.max()) / _LOG10),
        tests=tuple(every),
        curve=_curve(logs, bars),
        onset=_onset(arm, scores, {test.name for test in alarms}, rates),
        worst=worst,
        false_alarm=bounded(sum(test.alpha for test in deciding if test.value is not None)),
        caveats=blind_spots(scores, max(output.width for output in arm.outputs)),
        synthetic=card.synthetic,
    )


def _onset(arm: Arm, scores: Scores, alarms: set[str], rates: Rates) -> LosslessOnset | None:
    """Return where the deviation began; None where nothing alarmed, or only a test that has no place in the run."""
    row = None
    if alarms & {"impossible tokens", "tokens outside"}:
        row = onset_of_outside(scores, rates.outside)
    elif alarms & {"shift", "shift, anytime"}:
        row = onset_of_shift(scores)
    if row is None:
        return None
    key, position = arm.outputs[int(scores.output[row])].key, int(scores.position[row])
    text = f"from {key} token {position:,} on, tested token {row + 1:,}: the cause lies at or before it"
    return LosslessOnset(key=key, position=position, token=row + 1, text=text)


def _curve(logs: dict[str, np.ndarray], bars: Bars) -> EvidenceCurve:
    n = max((len(log_e) for log_e in logs.values()), default=0)
    at = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int)) if n else np.empty(0, dtype=int)
    return EvidenceCurve(
        tokens=tuple(int(row) + 1 for row in at),
        log10_e={name: tuple(bounded(float(log_e[row]) / _LOG10) for row in at) for name, log_e in logs.items()},
        bar=math.log10(bars.bar),
    )


def _nothing(card: RescoringCard, arm: Arm, bars: Bars, said: tuple[str, ...]) -> LosslessResult:
    reasons = "; ".join(f"{left.tokens:,} tokens: {left.reason}" for left in arm.left_out) or "there are none"
    return LosslessResult(
        result="not enough tokens",
        sentence=f"not enough tokens: none can be tested ({reasons})",
        outputs=len(arm.outputs),
        tokens=arm.tokens,
        tested=0,
        left_out=arm.left_out,
        bounds=LosslessBounds(mean_shift=None, wrong_tokens=None),
        log10_evidence=0.0,
        tests=(),
        curve=_curve({}, bars),
        onset=None,
        worst=(),
        false_alarm=0.0,
        caveats=said,
        synthetic=card.synthetic,
    )

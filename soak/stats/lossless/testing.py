"""The tests of one run, each with its value, its bar and a phrase: what `judging` decides by."""

import math

import numpy as np

from soak.facts import LosslessTest
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.control import Contrast
from soak.stats.lossless.evidence import (
    Rates,
    contamination_evidence,
    impossible_alarm,
    outside_evidence,
    shift_evidence,
)
from soak.stats.lossless.scores import Scores
from soak.stats.lossless.strata import ShiftZ, pooled_z, strata_z

_LOG10 = math.log(10)


def tests_of(scores: Scores, logs: dict[str, np.ndarray], rates: Rates, bars: Bars) -> list[LosslessTest]:
    """Return every test that needs no control; `logs` is `evidence_of` the same rows."""
    return [_impossible(scores, rates, bars), *_processes(logs, scores, bars), *_looked_at_once(scores, bars)]


def evidence_of(scores: Scores, rates: Rates, bars: Bars) -> dict[str, np.ndarray]:
    """Return log e after each token, of every process that has something to work with."""
    logs = {}
    if (~scores.plain).any():
        logs["tokens outside"] = outside_evidence(scores, rates.outside)
    if (scores.steady & scores.drawn).any():
        logs["shift, anytime"] = shift_evidence(scores, bars)
    if (scores.steady & scores.plain).any():
        logs["contamination"] = contamination_evidence(scores, bars.ratio)
    return logs


def _impossible(scores: Scores, rates: Rates, bars: Bars) -> LosslessTest:
    found = int(scores.impossible.sum())
    row = impossible_alarm(scores, rates.impossible, bars.impossible_alpha)
    text = f"{found:,} tokens that cannot be drawn and that the reference gives below 1e-5"
    return LosslessTest(
        name="impossible tokens",
        value=float(found),
        bar=1.0,
        alpha=bars.impossible_alpha,
        anytime=True,
        alarms=row is not None,
        tokens=len(scores.output),
        text=text if row is None else f"{text}; by token {row + 1:,} too many for numeric noise",
    )


def _processes(logs: dict[str, np.ndarray], scores: Scores, bars: Bars) -> list[LosslessTest]:
    return [
        LosslessTest(
            name=name,
            value=bounded(float(log_e.max()) / _LOG10),
            bar=math.log10(bars.bar),
            alpha=bars.alpha,
            anytime=True,
            alarms=bool(log_e.max() >= math.log(bars.bar)),
            tokens=len(scores.output),
            text=f"evidence reached 10^{bounded(float(log_e.max()) / _LOG10):.1f}",
        )
        for name, log_e in logs.items()
    ]


def _looked_at_once(scores: Scores, bars: Bars) -> list[LosslessTest]:
    strata = [z for z in strata_z(scores, bars) if z is not None]
    strongest = max(strata, key=lambda found: found.z, default=None)
    return [
        _z_test("shift", pooled_z(scores), bars.shift_z, bars.shift_alpha),
        _z_test("shift by confidence", strongest, bars.strata_z, bars.strata_alpha),
    ]


def _z_test(name: str, found: ShiftZ | None, bar: float, alpha: float) -> LosslessTest:
    return LosslessTest(
        name=name,
        value=None if found is None else bounded(found.z),
        bar=bar,
        alpha=alpha,
        anytime=False,
        alarms=found is not None and found.z >= bar,
        tokens=0 if found is None else found.tokens,
        text="too few tokens"
        if found is None
        else f"mean shift {found.mean:+.4f} nats, z {found.z:.1f} beyond tolerance",
    )


def contrast_test(found: Contrast | None, bars: Bars) -> LosslessTest:
    """Return the test against a control; without value where no relabelling could reach the bar."""
    able = found is not None and found.p_least <= bars.alpha
    text = "too few conversations or tokens of both arms"
    if found is not None and able:
        text = f"mean shift {found.candidate:+.4f} against the control's {found.control:+.4f} nats, p = {found.p:.2g}"
    return LosslessTest(
        name="against a control",
        value=-math.log10(found.p) if found is not None and able else None,
        bar=-math.log10(bars.alpha),
        alpha=bars.alpha,
        anytime=False,
        alarms=found is not None and able and found.p <= bars.alpha,
        tokens=0 if found is None else found.tokens,
        text=text,
    )


def bounded(value: float) -> float:
    """Return a number fit for JSON and for people: six digits, and no larger than a million."""
    return float(f"{min(max(value, -1e6), 1e6):.6g}")

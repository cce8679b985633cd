"""The law rebuilt from a list of log probabilities, and what a token says about it."""

import math

import msgspec
import numpy as np
import pytest
from rigs.drawing import VOCABULARY, laws, output_of, truncated

from soak.facts import SamplingLaw
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.laws import law_of
from soak.stats.lossless.scores import scores_of
from soak.stats.lossless.tables import Refused, Tables, tables_of

BARS = Bars()
SETTINGS = [
    SamplingLaw(top_p=0.95),
    SamplingLaw(),
    SamplingLaw(temperature=0.7, top_p=0.9, top_k=40),
    SamplingLaw(temperature=0.9, top_p=0.9, top_k=40),
    SamplingLaw(temperature=1.3, top_k=64),
    SamplingLaw(min_p=0.05),
]


def listed(logs: np.ndarray, width: int) -> np.ndarray:
    return -np.sort(-logs, axis=1)[:, :width]


@pytest.mark.parametrize("law", [law for law in SETTINGS if law.top_k or law.min_p], ids=str)
def test_with_as_many_entries_as_may_be_drawn_the_law_is_exact(law: SamplingLaw) -> None:
    """With k of at least top_k, or a list that reaches below min_p, the rebuilt law is the whole vocabulary's."""
    logs = laws(200, np.random.default_rng(1))
    found = law_of(listed(logs, 64), law, VOCABULARY)
    exact = -np.sort(-truncated(logs, law), axis=1)[:, :64]
    sure = found.error < 1e-9
    assert sure.mean() > 0.9
    np.testing.assert_allclose(np.exp(found.logq)[sure], exact[sure], atol=1e-9)
    assert found.rest[sure].max() < 1e-9


@pytest.mark.parametrize("temperature", [0.5, 0.7, 0.9, 1.0, 1.2, 2.0])
@pytest.mark.parametrize("top_p", [0.9, 1.0])
def test_the_norm_lies_within_its_bounds(temperature: float, top_p: float) -> None:
    """What was subtracted is off by at most the stated error, however little of the law the list holds."""
    law = SamplingLaw(temperature=temperature, top_p=top_p)
    logs = laws(300, np.random.default_rng(2))
    found = law_of(listed(logs, 8), law, VOCABULARY)
    masses = truncated(logs, law)
    best = logs.argmax(axis=1)
    rows = np.arange(len(logs))
    exact = logs[rows, best] / temperature - np.log(masses[rows, best])
    assert (np.abs(exact - found.lognorm) <= found.error + 1e-9).all()
    assert (found.error > 1e-3).any() == (temperature != 1 or top_p < 1)  # at T = 1 what is not listed has a known mass


@pytest.mark.parametrize("law", SETTINGS, ids=str)
@pytest.mark.parametrize("width", [20, 64])
def test_the_shift_has_mean_zero_and_the_stated_variance(law: SamplingLaw, width: int) -> None:
    """Weighed by the law drawn by, the shift of all tokens at a place is 0 up to the slack, and so is its variance."""
    random = np.random.default_rng(3)
    for logs in laws(12, random)[:, None, :]:
        every = np.arange(VOCABULARY)
        output = output_of(np.repeat(logs, VOCABULARY, axis=0), every, law, width=width)
        tables = tables_of(output, VOCABULARY)
        assert isinstance(tables, Tables)
        scores = scores_of(output, tables, 0, VOCABULARY, BARS, 0.3)
        p = truncated(logs, law)[0]
        assert abs(float(p @ scores.shift)) <= scores.slack[0] + 1e-5
        if scores.slack[0] < 1e-6 and scores.steady[0]:
            assert float(p @ scores.shift**2) == pytest.approx(scores.variance[0], abs=1e-4)
        assert not scores.outside[p > 0].any()


def test_ratios_are_laws() -> None:
    """Every contaminated law sums to 1 over the vocabulary, so that each factor of evidence has mean at most 1."""
    logs = laws(6, np.random.default_rng(4))
    for place in logs[:, None, :]:
        output = output_of(np.repeat(place, VOCABULARY, axis=0), np.arange(VOCABULARY), SamplingLaw(), width=32)
        tables = tables_of(output, VOCABULARY)
        assert isinstance(tables, Tables)
        scores = scores_of(output, tables, 0, VOCABULARY, BARS, 0.3)
        sums = np.exp(place[0]) @ np.exp(scores.ratios)
        np.testing.assert_allclose(sums, 1.0, atol=1e-4)


def test_a_token_far_outside_the_nucleus_is_impossible_and_one_at_its_edge_is_not() -> None:
    """Outside counts only beyond the tolerated mass, impossible only below 1e-5 besides."""
    p = np.array([0.955, 0.02, 0.0125, 0.0124, *[2e-6] * 50])
    logs = np.log(p / p.sum())[None, :]
    output = output_of(np.repeat(logs, len(p), axis=0), np.arange(len(p)), SamplingLaw(top_p=0.95), width=20)
    tables = tables_of(output, len(p))
    assert isinstance(tables, Tables)
    scores = scores_of(output, tables, 0, len(p), BARS, 0.3)
    assert not scores.outside[:3].any()  # at most 0.98 above them
    assert scores.outside[3] and not scores.impossible[3]
    assert scores.impossible[4:].all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("width", [2, 8, 64])
def test_what_lies_behind_a_token_tells_where_the_list_ends_early(temperature: float, width: int) -> None:
    """A short list finds tokens far behind it outside, and never one that has no more above it than noise allows."""
    law = SamplingLaw(temperature=temperature, top_p=0.9)
    logs = laws(40, np.random.default_rng(4))
    weights = np.exp(logs / temperature)
    shares = weights / weights.sum(axis=1, keepdims=True)
    behind = 0
    for token in range(VOCABULARY):
        output = output_of(logs, np.full(len(logs), token), law, width=width)
        tables = tables_of(output, VOCABULARY)
        assert isinstance(tables, Tables)
        scores = scores_of(output, tables, 0, VOCABULARY, BARS, 0.3)
        above = np.where(logs > logs[:, [token]], shares, 0.0).sum(axis=1)
        assert not scores.outside[above < 0.9].any()
        behind += int(scores.outside[scores.rank >= width].sum())
    assert behind > 0


def test_a_token_outside_top_k_needs_a_gap() -> None:
    """A token below the fortieth is outside only if it is 1.5 nats below it: numbers near each other change places."""
    logs = np.log(np.array([*[0.02] * 40, 0.0199, 0.002, *[0.0001] * 100]))
    logs = (logs - np.log(np.exp(logs).sum()))[None, :]
    output = output_of(np.repeat(logs, 3, axis=0), np.array([40, 41, 100]), SamplingLaw(top_k=40), width=64)
    tables = tables_of(output, 142)
    assert isinstance(tables, Tables)
    scores = scores_of(output, tables, 0, 142, BARS, 0.3)
    assert scores.outside.tolist() == [False, True, True]


def test_greedy_tokens_are_judged_by_their_gap() -> None:
    """At temperature 0 a near-tie passes and a token far below the greatest does not."""
    logs = np.log(np.array([0.4, 0.38, 0.15, 0.07 - 1e-6, 1e-6]))[None, :]
    output = output_of(np.repeat(logs, 5, axis=0), np.arange(5), SamplingLaw(temperature=0.0), width=5)
    tables = tables_of(output, 5)
    assert isinstance(tables, Tables)
    scores = scores_of(output, tables, 0, 5, BARS, 0.3)
    assert scores.outside.tolist() == [False, False, False, True, True]
    assert scores.impossible.tolist() == [False, False, False, False, True]
    strict = scores_of(output, tables, 0, 5, BARS, 0.05)
    assert strict.outside.tolist() == [False, False, True, True, True]
    assert math.isclose(float(scores.variance.sum()), 0.0)


def test_ranks_that_cannot_be_are_refused() -> None:
    """A rank beyond the vocabulary, as a placeholder or a count from 1 may be, is told and not judged by."""
    logs = laws(4, np.random.default_rng(6))
    output = output_of(logs, logs.argmax(axis=1), SamplingLaw(top_p=0.95), width=8)
    for rank in (VOCABULARY, 2**32 - 1):
        wrong = tables_of(msgspec.structs.replace(output, ranks=np.full(4, rank, "<u4").tobytes()), VOCABULARY)
        assert isinstance(wrong, Refused) and "rank" in wrong.reason

"""What the losslessness test says of runs that are healthy, broken, too short, or not testable."""

import math
import subprocess
import sys
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from rigs.drawing import CARD, laws, output_of, outputs_of, wrong

from soak.facts import LosslessResult, Mark, RescoredOutput, SamplingLaw, encode
from soak.stats.lossless import Bars, judge, measured_noise, read_arm
from soak.stats.lossless.evidence import impossible_limits

ROOT = Path(__file__).parents[3]
ISSUE = SamplingLaw(top_p=0.95)
COOL = SamplingLaw(temperature=0.7, top_p=0.9, top_k=40)
GREEDY = SamplingLaw(temperature=0.0)
ALL = [ISSUE, COOL, SamplingLaw(), GREEDY]


def alarms(result: LosslessResult) -> set[str]:
    return {test.name for test in result.tests if test.alarms}


@pytest.mark.parametrize("law", ALL, ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_healthy_run_is_bounded_not_certified(law: SamplingLaw, noise: float) -> None:
    """A healthy run ends in `no deviation found` with its bounds, and says what it does not show."""
    result = judge(CARD, outputs_of(law, 5, noise=noise))
    assert result.result == "no deviation found", result.sentence
    assert result.tested == result.tokens == 4000
    assert result.bounds.wrong_tokens is not None and result.bounds.wrong_tokens < 0.01
    if law is not GREEDY:
        assert result.bounds.mean_shift is not None and 0 < result.bounds.mean_shift < 0.1
        assert "mean shift below" in result.sentence
    assert any("certify" in caveat for caveat in result.caveats)
    assert any("one-hot" in caveat for caveat in result.caveats)
    assert result.onset is None
    assert 0 < result.false_alarm < 0.05


@pytest.mark.parametrize("law", ALL, ids=str)
def test_wrong_tokens_are_found_and_shown(law: SamplingLaw) -> None:
    """Wrong tokens deviate; the first of the worst tokens is one the reference does not believe."""
    result = judge(CARD, outputs_of(law, 6, fault=wrong(0.02)))
    assert result.result == "deviates"
    assert result.worst[0].logprob < -5
    assert result.log10_evidence > 3
    assert ("contamination" in alarms(result)) == (law == SamplingLaw())
    if law.top_p < 1:
        assert result.worst[0].tier == 1
        assert "cannot be drawn" in result.sentence


@pytest.mark.parametrize(
    ("drawn", "said", "by"),
    [
        (SamplingLaw(), ISSUE, "tokens outside"),
        (SamplingLaw(temperature=1.2, top_p=0.95), ISSUE, "shift"),
        (SamplingLaw(temperature=0.8, top_p=0.95), ISSUE, "shift"),
        (SamplingLaw(temperature=0.9, top_p=0.9, top_k=40), COOL, "shift"),
        (SamplingLaw(temperature=1.2), SamplingLaw(), "shift"),
    ],
    ids=["top_p ignored", "hotter", "colder", "hotter with top_k", "hotter, nothing truncated"],
)
def test_another_law_than_the_stated_is_found(drawn: SamplingLaw, said: SamplingLaw, by: str) -> None:
    """Tokens drawn by another law than the outputs say deviate, by the test meant for it."""
    result = judge(CARD, outputs_of(drawn, 7, scored=said, outputs=20))
    assert result.result == "deviates"
    assert by in alarms(result)


def test_evidence_of_an_anytime_test_stands_while_a_run_is_watched() -> None:
    """With `peeking` only tests that may be looked at after every token decide, and the stated false alarm is less."""
    hot = outputs_of(SamplingLaw(temperature=1.1, top_p=0.95), 8, scored=ISSUE, outputs=30)
    once, watched = judge(CARD, hot), judge(CARD, hot, peeking=True)
    assert watched.false_alarm < once.false_alarm
    assert once.tests == watched.tests
    only_once = [test for test in once.tests if test.alarms and not test.anytime]
    assert only_once, "the case is meant to alarm by a test that is looked at once"
    assert (watched.result == "deviates") == any(test.alarms and test.anytime for test in watched.tests)


def test_few_tokens_say_so_but_a_deviation_stands() -> None:
    """Below the tokens a result needs it is `not enough tokens`, unless the evidence is there already."""
    assert judge(CARD, outputs_of(ISSUE, 9, outputs=2)).result == "not enough tokens"
    assert judge(CARD, outputs_of(ISSUE, 9, outputs=2, fault=wrong(0.05))).result == "deviates"


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (SamplingLaw(altered=("repetition_penalty",)), "repetition_penalty"),
        (SamplingLaw(top_p=0.0), "cannot be"),
        (SamplingLaw(temperature=float("nan")), "cannot be"),
        (SamplingLaw(temperature=0.001), "too small"),
    ],
)
def test_a_law_that_cannot_be_rebuilt_is_refused_with_its_reason(law: SamplingLaw, reason: str) -> None:
    """Outputs under penalties or settings that cannot be are left out, counted, and the reason is said."""
    result = judge(CARD, outputs_of(ISSUE, 10, outputs=2, scored=law))
    assert result.result == "not enough tokens"
    assert result.left_out[0].tokens == 800
    assert reason in result.left_out[0].reason and reason in result.sentence


def spoiled(output: RescoredOutput, table: str, index: int, value: float, kind: str) -> RescoredOutput:
    """Return the output with one number of one table changed."""
    numbers = np.frombuffer(getattr(output, table), kind).copy()
    numbers[index] = value
    return replace(output, **{table: numbers.tobytes()})


@pytest.mark.parametrize(
    ("table", "index", "value", "reason"),
    [
        ("logprobs", 3, float("nan"), "not a number"),
        ("top_logprobs", 5, float("nan"), "not a number"),
        ("top_logprobs", 64, float("inf"), "above 1"),
        ("logprobs", 0, 0.5, "above 1"),
        ("top_logprobs", 66, -0.0001, "in order"),
        ("top_ids", 1, None, "twice"),
        ("top_ids", 1, 10**6, "vocabulary"),
        ("token_ids", 1, 10**6, "vocabulary"),
        ("logprobs", 2, -0.9, "shifted"),
    ],
)
def test_numbers_that_cannot_be_are_refused(table: str, index: int, value: float | None, reason: str) -> None:
    """An output with one impossible number is left out with a reason that names it; the others are tested."""
    bad, good = outputs_of(ISSUE, 11, outputs=2)
    if value is None:
        value = float(np.frombuffer(bad.top_ids, "<u4")[0])
    bad = spoiled(bad, table, index, value, "<u4" if table.endswith("ids") else "<f4")
    result = judge(CARD, [bad, good])
    assert result.tested == 400
    assert reason in result.left_out[0].reason


def test_a_token_of_probability_zero_is_evidence_not_an_error() -> None:
    """A sampled token the reference gives −inf is impossible, and every number of the result is finite."""
    output = outputs_of(ISSUE, 12, outputs=1, width=20)[0]
    ids, top = np.frombuffer(output.token_ids, "<u4"), np.frombuffer(output.top_ids, "<u4").reshape(-1, 20)
    full = np.exp(np.frombuffer(output.top_logprobs, "<f4")).reshape(-1, 20).sum(axis=1) > 0.99
    row = int(np.flatnonzero(full)[0])
    stranger = next(token for token in range(300) if token not in top[row] and token != ids[row])
    output = spoiled(output, "token_ids", row, stranger, "<u4")
    output = spoiled(spoiled(output, "logprobs", row, float("-inf"), "<f4"), "ranks", row, 299, "<u4")
    result = judge(CARD, [output])
    assert (result.result, result.worst[0].position, result.worst[0].tier) == ("deviates", row, 1)
    assert b"null" not in encode(result.curve) and msgspec.json.decode(encode(result), type=LosslessResult) == result


def test_no_outputs_and_empty_outputs_are_not_enough() -> None:
    """Nothing, or only answers without tokens, is `not enough tokens`, never an error."""
    empty = output_of(laws(0, np.random.default_rng(0)), np.empty(0, dtype=int), ISSUE)
    for outputs in ([], [empty], [empty, empty]):
        assert judge(CARD, outputs).result == "not enough tokens"


def test_forced_spans_take_no_part() -> None:
    """Tokens of a forced span are not tested, and the others keep their positions."""
    output = outputs_of(ISSUE, 13, outputs=1, fault=wrong(1.0))[0]
    forced = replace(output, forced=((0, 390),))
    result = judge(CARD, [forced])
    assert result.tested == 10
    assert {token.position for token in result.worst} == set(range(390, 400))
    assert result.left_out[0].tokens == 390


def test_a_worst_token_names_the_nearest_mark() -> None:
    """The distance of a worst token to the nearest place given is told, before or after it."""
    random = np.random.default_rng(14)
    logs = laws(50, random)
    tokens = logs.argmax(axis=1)
    tokens[20] = logs[20].argmin()
    marks = (Mark(position=16, kind="cache_boundary"), Mark(position=40, kind="rejected_draft"))
    result = judge(CARD, [output_of(logs, tokens, ISSUE, marks=marks)])
    token = result.worst[0]
    assert (token.position, token.mark, token.distance) == (20, "cache_boundary", 4)
    assert "4 tokens after a cache boundary" in token.text


def test_the_onset_is_where_the_fault_began() -> None:
    """Where a fault sets in after a healthy stretch, the onset is told to within a tenth of it."""
    healthy, hot = outputs_of(ISSUE, 15), outputs_of(SamplingLaw(temperature=1.4, top_p=0.95), 16, scored=ISSUE)
    result = judge(CARD, [*healthy, *hot])
    assert result.onset is not None
    assert abs(result.onset.token - 4000) < 400
    broken = judge(CARD, [*healthy, *outputs_of(ISSUE, 17, fault=wrong(0.02))])
    assert broken.onset is not None
    assert 4000 < broken.onset.token < 4400


def test_a_short_list_says_what_to_ask_for() -> None:
    """Where top_k reaches beyond the list the places are not testable, and the result says how many to ask for."""
    result = judge(CARD, outputs_of(SamplingLaw(temperature=0.9, top_k=40), 18, width=5))
    assert any("ask for as many as top_k" in caveat for caveat in result.caveats)


def test_a_control_takes_away_what_both_share() -> None:
    """A noise both arms share passes against a control; a deviation of the candidate alone does not."""
    control = outputs_of(ISSUE, 19, outputs=20, noise=0.2)
    same = judge(CARD, outputs_of(ISSUE, 20, outputs=20, noise=0.2), control=control)
    hot = judge(
        CARD, outputs_of(SamplingLaw(temperature=1.15, top_p=0.95), 21, outputs=20, scored=ISSUE), control=control
    )
    assert "against a control" not in alarms(same) and same.result == "no deviation found"
    assert "against a control" in alarms(hot)


def test_what_a_control_shows_is_not_said_to_be_assumed() -> None:
    """That the tolerances are assumptions is said without a control, and not beside one that was scored."""
    outputs = outputs_of(ISSUE, 22, outputs=3)

    def assumed(control: Any) -> bool:
        return any("without a control" in text for text in judge(CARD, outputs, control=control).caveats)

    assert assumed(None)
    assert assumed([])
    assert not assumed(list(outputs_of(ISSUE, 23, outputs=3)))


def test_too_few_conversations_cannot_contradict_a_control() -> None:
    """With so few conversations that no relabelling reaches the bar, the test has no value and no alarm."""
    found = judge(CARD, outputs_of(ISSUE, 22, outputs=3), control=outputs_of(ISSUE, 23, outputs=3))
    test = next(test for test in found.tests if test.name == "against a control")
    assert (test.value, test.alarms) == (None, False)


def test_noise_is_measured_from_a_control_that_reports_its_own() -> None:
    """The deviation of reported and scored log probabilities is found, and sets the tolerance at temperature 0."""
    random = np.random.default_rng(24)
    logs = laws(2000, random)
    tokens = logs.argmax(axis=1)
    reported = logs[np.arange(2000), tokens] + 0.05 * random.normal(size=2000)
    control = read_arm(CARD, [output_of(logs, tokens, GREEDY, reported=reported)], Bars())
    noise = measured_noise(control, Bars())
    assert noise.deviation == pytest.approx(0.05, rel=0.1)
    assert noise.rates.impossible == Bars().impossible_rate


def test_a_control_with_impossible_tokens_raises_what_is_tolerated() -> None:
    """A plain arm that has impossible tokens itself sets the rate to the 95 % bound of what it has."""
    control = read_arm(CARD, outputs_of(ISSUE, 25, fault=wrong(0.01)), Bars())
    assert measured_noise(control, Bars()).rates.impossible > 0.003


def test_the_bars_of_impossible_tokens_spend_no_more_than_their_share() -> None:
    """The chances that the m-th comes by its limit add up to less than alpha, by Poisson counts."""
    limits = impossible_limits(1e-6, 0.01, 12)
    fewer = [sum((n * 1e-6) ** j / math.factorial(j) for j in range(m)) for m, n in enumerate(limits, start=1)]
    chances = [1 - math.exp(-n * 1e-6) * chance for n, chance in zip(limits, fewer, strict=True)]
    assert 0.009 < sum(chances) <= 0.01
    assert limits == sorted(limits) and 4000 < limits[0] < 6000


def test_all_bars_together_stay_below_five_percent() -> None:
    """The chance of a false alarm promised by all tests together is far below 5 %."""
    whole = judge(CARD, outputs_of(SamplingLaw(), 26), control=outputs_of(SamplingLaw(), 27))
    assert sum(test.alpha for test in whole.tests) < 0.02
    assert changed(Bars(), alpha=0.01).bar == 100


def test_the_page_equals_the_results() -> None:
    """Every table of the page is what the kept results of the bench say."""
    script = ROOT / "ops" / "bench" / "lossless.py"
    done = subprocess.run([sys.executable, str(script), "--page", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

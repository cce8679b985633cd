"""What is found in a looping text: kind, onset, period, copies, unit, place."""

import random

import pytest
from unit.classify.planted import honest_prose, planted, planted_exact, token_ids
from unit.classify.turns import answer, call, judged, kinds

from soak.classify import DEFAULTS, Context, judge
from soak.classify.repeats import in_closed_fence, primitive
from soak.classify.texture import texture
from soak.facts import Message

SENTENCE = "The slice ends one row late, so the last row is read twice. "


@pytest.mark.parametrize("unit", [", ", "- ", "I ", ". ", "x o "])
def test_signs_in_an_endless_line(unit: str) -> None:
    """Thousands of signs or single letters in one line are no data, though the answer ends by itself; figures are."""
    assert judged("It is so. " + unit * 2000).class_ == "garbage_loop"
    assert judged("It is so. " + "0 " * 2000).class_ == "ok"


@pytest.mark.parametrize("period_words", [1, 2, 5, 13, 40, 150, 400, 1024])
def test_exact_loop_of_any_period(period_words: int) -> None:
    """An exact loop cut by the limit is found with its period, and its onset within one period."""
    rng = random.Random(period_words)
    fault = planted_exact(rng, period_words, 4000, max(256, 5 * period_words))
    judgement = judged(fault.text, "length")
    finding = judgement.findings[0]
    assert judgement.class_ == "garbage_loop"
    assert abs(finding.onset_char - fault.onset) <= fault.period
    assert finding.unit
    if finding.kind == "exact_loop":
        assert finding.copies is not None and finding.copies >= 3


def test_evidence_of_a_loop() -> None:
    """The finding counts copies, measures the covered share, quotes the unit and says it in a sentence."""
    judgement = judged("Cause found.\n" + SENTENCE * 40)
    finding = judgement.findings[0]
    assert judgement.class_ == "garbage_loop"
    assert finding.copies == pytest.approx(40, abs=1)
    assert finding.covered > 0.95
    assert finding.unit.strip() in SENTENCE * 2
    assert 10 <= finding.onset_char <= 13 + len(SENTENCE)
    assert "40 times" in judgement.reason or "41 times" in judgement.reason


def test_token_positions() -> None:
    """With token ids the onset and the period are given in tokens of the whole answer."""
    lead = honest_prose(random.Random(1), 2000)
    text = lead + "stale cache again " * 200
    judgement = judged(text, "length", token_ids=token_ids(text))
    finding = judgement.findings[0]
    assert finding.period_tokens == 3
    assert finding.onset_token is not None
    assert abs(finding.onset_token - len(token_ids(lead))) <= 4
    assert finding.detected_at is not None and finding.detected_at >= finding.onset_token


@pytest.mark.parametrize("where", ["reasoning", "tool_arguments"])
def test_where(where: str) -> None:
    """A loop in the reasoning or in tool arguments is found there."""
    if where == "reasoning":
        judgement = judged("", "length", reasoning="Let us see. " + "not reached " * 300)
    else:
        judgement = judged("", None, tool_calls=(call('{"cmd": "' + "grep -rn lamp . ; " * 100),))
    assert judgement.class_ == "garbage_loop"
    assert judgement.findings[0].where == where


def test_recovered_loop_is_ok() -> None:
    """A loop that ended and was followed by work is ok, with a finding that says so."""
    judgement = judged(SENTENCE * 40 + honest_prose(random.Random(2), 3000) + "\nAll tests pass now.")
    assert judgement.class_ == "ok"
    assert "loop_recovered" in kinds(judgement)


@pytest.mark.parametrize("row", ["retry(client, 3)\n", '{"id": 0, "on": true},\n', "x = step(x, y)\n"])
def test_equal_rows_of_code_that_ended(row: str) -> None:
    """Ninety equal rows of code before a normal end are data, however many tokens they are; 150 are a loop."""
    lead = honest_prose(random.Random(2), 600)
    assert judged(lead + row * 90).class_ == "ok"
    assert judged(lead + row * 150).class_ == "garbage_loop"


def test_rows_that_come_twice_are_no_part_of_the_loop_after_them() -> None:
    """An exact loop begins where it does, though each row right before it stands there twice."""
    rows = "".join(
        f"   {2600 + k}    load-stock-{k}  (attempt 1), then retried by the scheduler\n" * 2 for k in range(60)
    )
    loop = "which can handle large " * 60
    finding = judged(rows + loop, "length").findings[0]
    assert finding.kind == "exact_loop"
    assert abs(finding.onset_char - len(rows)) <= 23


def test_recorded_answer_explains() -> None:
    """Repetition that the recorded answer has too is not garbage."""
    text = SENTENCE * 60
    assert judged(text).class_ == "garbage_loop"
    judgement = judged(text, context=Context(reference=Message(role="assistant", content=text)))
    assert judgement.class_ == "ok"
    assert kinds(judgement) == ["explained_repetition"]


def test_prompt_explains_one_copy_only() -> None:
    """What the prompt holds once may be said again, not looped on."""
    context = Context(prompt_text="Log:\n" + SENTENCE)
    assert judged(SENTENCE * 60, context=context).class_ == "garbage_loop"
    assert judged(SENTENCE * 60, context=Context(prompt_text=SENTENCE * 60)).class_ == "ok"


def test_rows_of_data_are_believed_only_when_they_end() -> None:
    """The same row of zeros over and over is data if the answer ends by itself, and runaway if it fills the budget."""
    rows = "0, 0, 0, 0,\n" * 300
    assert judged(rows, "stop").class_ == "ok"
    assert judged(rows, "length").class_ == "garbage_loop"


@pytest.mark.parametrize(
    "kind", ["counter", "sentence pool", "paraphrase", "growing", "interleaved", "babble", "markers", "flood"]
)
def test_loops_without_equal_copies(kind: str) -> None:
    """Counters, reshuffled and growing sentences, babble, markers and floods are garbage when they fill the budget."""
    fault = planted(random.Random(5), kind, 2000, 900)
    assert judged(fault.text, "length").class_ == "garbage_loop"


def test_loop_after_many_good_tokens() -> None:
    """A loop that starts after 60,000 good characters and ends in a stop is found."""
    rng = random.Random(8)
    text = honest_prose(rng, 60_000) + SENTENCE * 100
    assert judged(text).class_ == "garbage_loop"


def test_tokens_without_text() -> None:
    """A flood of tokens that leave no text is seen in the ids."""
    judgement = judged("Yes.", "length", token_ids=(11, 12, *(7, 9) * 400))
    assert judgement.class_ == "garbage_loop"
    assert kinds(judgement)[0] == "token_loop"


def test_cut_by_the_guard() -> None:
    """An answer that the live guard cut is garbage even if the stored text shows no loop to these settings."""
    assert judge(answer("Short.", None, ending="cut"), Context()).class_ == "garbage_loop"


def test_override_changes_the_verdict() -> None:
    """Thresholds can be overridden: with more copies asked for, the same answer passes."""
    text = "Done.\n" + SENTENCE * 20
    lax = DEFAULTS.override({"closed_copies": 50, "pool_sentences": 500, "redundant_copies": 500})
    assert judge(answer(text), Context()).class_ == "garbage_loop"
    assert judge(answer(text), Context(), lax).class_ == "ok"


@pytest.mark.parametrize("name", ["closed_copy", "salad"])
def test_unknown_settings_are_refused(name: str) -> None:
    """A name that is no threshold is an error that lists the known ones."""
    with pytest.raises(ValueError, match="closed_copies"):
        DEFAULTS.override({name: 1.0})


def test_negative_settings_are_refused() -> None:
    """A threshold below zero is an error."""
    with pytest.raises(ValueError, match="salad_scripts"):
        DEFAULTS.override({"salad_scripts": -1})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("  \n\t", "blank"),
        ("+------+", "symbols"),
        ("0, 12, 7, 3,", "numbers"),
        ("de ad be ef 00 11", "numbers"),
        ("PASSED\n", "words"),
        ("x = f(a, b); y[0] = {}", "code"),
        ("The lamp is on and the door is shut.", "prose"),
        ("这个模块先读取配置文件", "prose"),
    ],
)
def test_texture(text: str, kind: str) -> None:
    """A text is told by what prevails in it."""
    assert texture(text).kind == kind


def test_primitive() -> None:
    """The unit shown is the shortest one."""
    assert primitive("abab") == "ab"
    assert primitive("aaaa") == "a"
    assert primitive("abc") == "abc"


def test_closed_fence() -> None:
    """Only a place between an opening and a closing fence is quoted."""
    text = "a\n```\nrow\n```\nb\n```\nrow"
    assert in_closed_fence(text, text.index("row"))
    assert not in_closed_fence(text, text.rindex("row"))
    assert not in_closed_fence(text, 0)

"""What is shown of the losslessness probe: terminal and page."""

from msgspec.structs import replace

from soak.facts import (
    EvidenceCurve,
    LeftOut,
    LosslessBounds,
    LosslessFound,
    LosslessOnset,
    LosslessResult,
    LosslessTest,
    LosslessToken,
    ScoringCost,
    TurnKey,
)
from soak.report import terminal_lossless
from soak.report.lossless_page import lossless_page

KEY = TurnKey(episode="talk", turn=3, pass_=0, arm="candidate")
TOKEN = LosslessToken(
    key=KEY,
    position=1604,
    token_id=7,
    logprob=-20.7,
    rank=61_203,
    top_id=8,
    top_logprob=-0.03,
    above=0.99,
    tier=1,
    expected=0.0,
    mark="cache_boundary",
    distance=4,
    text="talk:3:0:candidate token 1,604: the reference gives id 7 p = 1e-09",
)
TEST = LosslessTest(
    name="impossible tokens",
    value=3.0,
    bar=1.0,
    alpha=0.01,
    anytime=True,
    alarms=True,
    tokens=5000,
    text="3 tokens that cannot be drawn",
)
RESULT = LosslessResult(
    result="deviates",
    sentence="deviates: impossible tokens: 3 tokens that cannot be drawn",
    outputs=9,
    tokens=5100,
    tested=5000,
    left_out=(LeftOut(tokens=100, outputs=1, reason="forced"),),
    bounds=LosslessBounds(mean_shift=0.1, wrong_tokens=0.01),
    log10_evidence=9.0,
    tests=(TEST, replace(TEST, name="shift", value=None, alarms=False)),
    curve=EvidenceCurve(tokens=(1, 5000), log10_e={"tokens outside": (0.0, 9.0)}, bar=3.0),
    onset=LosslessOnset(key=KEY, position=3, token=40, text="from talk on"),
    worst=(TOKEN,),
    false_alarm=0.016,
    caveats=("the test bounds a deviation",),
)
FOUND = LosslessFound(
    case="talk:3:0:candidate",
    sampled_by="local",
    scored_by="local (no speculation)",
    scored_in="bfloat16",
    width=64,
    vocabulary=49_152,
    result=RESULT,
    unscored=(LeftOut(tokens=40, outputs=2, reason="its law is not known"),),
    control=(6, 900),
    noise=0.0812,
    cost=ScoringCost(answers=9, tokens=20_000, seconds=10.0, peak_bytes=3 * 2**30),
    texts={7: " never", 8: " the"},
    notes=("one note",),
)


def test_the_terminal_says_who_scored_what_stands_out_and_how_far_the_result_goes() -> None:
    """Tests with alarms, the worst token by its text and place, what was left out, the noise, the sentence last."""
    text = terminal_lossless(FOUND)
    for words in (
        "scored by local (no speculation) (bfloat16, 64 log probabilities a token, 20,000 tokens scored at 2,000",
        "3.0 GiB at most",
        "impossible tokens",
        "ALARM",
        "too few",
        "' never'",
        "1e-09",
        "61,204",
        "4 after cache boundary",
        "40 tokens of 2 answers were not scored: its law is not known",
        "100 tokens of 1 answers took no part: forced",
        "control: 900 tokens of 6 answers; between decoding and scoring 0.081 nats",
        "onset: from talk on",
        "one note",
        "not shown: the test bounds a deviation",
    ):
        assert words in text, words
    assert text.splitlines()[-1] == RESULT.sentence


def test_hostile_texts_are_shown_as_what_they_are() -> None:
    """A token's text or a server's name cannot move the cursor, and is no markup on the page."""
    nasty = "\x1b[2J\u202e<script>x()</script>\n"
    found = replace(FOUND, sampled_by=nasty, texts={7: nasty, 8: nasty}, notes=(nasty,))
    text = terminal_lossless(found)
    assert "\x1b" not in text
    assert "\u202e" not in text
    page = lossless_page(found, "0.1.0")
    assert "<script>x()" not in page
    assert "\u202e" not in page


def test_the_page_holds_the_curve_and_asks_for_nothing() -> None:
    """One file with the verdict, the e-process as a picture and the worst token; without tests it is still a page."""
    page = lossless_page(FOUND, "0.1.0")
    for words in ("<svg", "fail", "impossible tokens", "deviates", "61,204", "Made by soak 0.1.0"):
        assert words in page, words
    assert "http-equiv" in page
    assert "What was run" not in page
    nothing = replace(
        RESULT, result="not enough tokens", tests=(), worst=(), curve=EvidenceCurve(tokens=(), log10_e={}, bar=3.0)
    )
    assert "unknown" in lossless_page(replace(FOUND, result=nothing), "0.1.0")

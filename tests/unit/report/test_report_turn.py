"""One turn with its evidence marked, and the list of turns."""

import msgspec
from report_facts import turn

from soak.facts import Finding, Message, Record, ToolCall, TurnKey
from soak.report import terminal_turn, terminal_turn_list

LOOP = Finding(
    kind="exact_loop",
    onset_char=1500,
    onset_token=300,
    period_tokens=2,
    copies=300,
    covered=0.62,
    unit=" foo bar",
    text="' foo bar' 300 times",
)
LOOPING = "x" * 1500 + " foo bar" * 300 + "END"


def test_the_onset_and_the_unit_are_marked_in_the_text() -> None:
    """A line before the loop says what begins, its first copies stand in brackets, the middle is counted."""
    text = terminal_turn(turn(content=LOOPING, findings=(LOOP,)))
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index(">>> exact_loop begins here: ' foo bar' 300 times")
    assert lines[at - 1].endswith("xxx")
    assert lines[at + 1] == "⟦ foo bar⟧⟦ foo bar⟧⟦ foo bar⟧"
    assert "[… 700 characters left out …]" in lines
    assert lines[-1].endswith("END")
    assert len(text) < 5000


def test_a_finding_is_told_in_numbers() -> None:
    """Where, from which character and token, period, copies and share."""
    text = terminal_turn(turn(content=LOOPING, findings=(LOOP,)), width=200)
    assert "exact_loop in content (from character 1,500, token 300, period 2 tokens, 300 copies, covers 62.0 %)" in text


def test_short_texts_are_shown_whole() -> None:
    """Nothing is left out of a short answer."""
    text = terminal_turn(turn(content="first line\nsecond line"))
    assert "    first line\n    second line" in text
    assert "left out" not in text


def test_how_the_turn_went_is_told() -> None:
    """Class, reason, ending, tokens, times, attempts; what the server did not say is a dash."""
    text = terminal_turn(turn("because", clamped=True, censored=True))
    assert "class: garbage_loop" in text
    assert "why: because" in text
    assert "cut by a limit: times are lower bounds" in text
    assert "tokens: prompt 1,000 (cached –), answer 20,000 of at most 20,000 (clamped)" in text
    assert "first token 80 ms, whole turn 200.0 s, longest gap –; attempts 1, chunks 7,000" in text


def test_prefix_and_reference_are_shown_in_excerpt() -> None:
    """The last messages of the prefix and the recorded answer; of the raw stream only how much is kept."""
    prefix = [Message(role="user", content=f"message {i}") for i in range(9)]
    call = ToolCall(id="1", name="bash", arguments='{"cmd": "ls"}')
    text = terminal_turn(turn(), prefix, Message(role="assistant", tool_calls=(call,)), raw_bytes=5012)
    assert "prefix: 9 messages, the last 4 shown" in text
    assert "message 8" in text
    assert "message 4" not in text
    assert 'bash({"cmd": "ls"})' in text
    assert text.endswith("raw stream kept: 5,012 bytes; --raw prints them")


def test_findings_in_tool_arguments_and_reasoning_are_marked_there() -> None:
    """Evidence is marked in the part of the answer it was found in."""
    found = (
        Finding(kind="loop", where="tool_arguments", onset_char=2, unit="ab"),
        Finding(kind="salad", where="reasoning"),
    )
    call = ToolCall(id="1", name="bash", arguments="xxabab")
    text = terminal_turn(turn(content="", reasoning="words", tool_calls=(call,), findings=found))
    assert "answer, reasoning: 5 characters\n    >>> salad begins here: unit \n    words" in text
    assert (
        "answer, tool arguments (bash): 6 characters\n    xx\n    >>> loop begins here: unit ab\n    ⟦ab⟧⟦ab⟧" in text
    )


def test_an_onset_outside_the_text_does_no_harm() -> None:
    """Offsets beyond the text are passed over; more than eight findings are not all marked."""
    far = Finding(kind="loop", onset_char=10**9)
    many = tuple(Finding(kind=f"k{i}", onset_char=i) for i in range(30))
    assert "begins here" not in terminal_turn(turn(findings=(far,)))
    assert terminal_turn(turn(content="y" * 50, findings=many)).count("begins here") == 8


def test_an_empty_answer_and_a_skipped_turn_are_told() -> None:
    """No text is said to be empty; a turn that was not sent has its reason."""
    assert "answer: empty" in terminal_turn(turn(content=""))
    skipped = Record(key=TurnKey(episode="e", turn=0, pass_=0, arm="a"), outcome="skipped", at=0, reason="too deep")
    text = terminal_turn(skipped)
    assert "class: skipped" in text
    assert "why: too deep" in text


def test_the_list_has_the_worst_class_first_and_counts_the_rest() -> None:
    """Loops before ok turns, the longest first, what is not listed counted."""
    ok = [
        msgspec.structs.replace(r, judgement=msgspec.structs.replace(r.judgement, class_="ok"))
        for r in [turn(f"e{i}") for i in range(30)]
    ]
    skipped = Record(key=TurnKey(episode="e", turn=0, pass_=0, arm="a"), outcome="skipped", at=0, reason="too deep")
    lines = terminal_turn_list([*ok, skipped, turn("bad")], per_class=5).splitlines()
    assert lines[0] == "garbage_loop 1"
    assert lines[1].startswith("  bad:3:0:candidate")
    assert "ok 30" in lines
    assert "  … and 25 more" in lines
    assert lines[-1].split() == ["e:0:0:a", "too", "deep"]
    assert terminal_turn_list([]) == "no turns yet"


def test_the_list_keeps_the_beginning_of_a_long_reason() -> None:
    """A reason too long for its line loses its end, not its middle."""
    reason = " ".join(f"word{number}" for number in range(40))
    skipped = Record(key=TurnKey(episode="e", turn=0, pass_=0, arm="a"), outcome="skipped", at=0, reason=reason)
    told = terminal_turn_list([skipped]).splitlines()[1].split("  ")[-1].strip()
    assert told.endswith("…")
    assert reason.startswith(told[:-1])

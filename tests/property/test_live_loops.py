"""Loops across turns, planted at any place in any honest work; and what hostile answers do to those who read them."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.classify import Round, call_text, calls_in_text, cross_turn_loops, likeness
from soak.facts import ToolCall

WORDS = st.sampled_from(["grep", "cat", "make", "pytest", "sed", "git", "ls", "python", "diff", "find"])


def honest(number: int) -> Round:
    """Return a turn that is like no other."""
    arguments = json.dumps({"command": f"{'abcdefghij'[number % 10] * 5} --look {number * 7919} {number}"})
    return Round(number, (ToolCall(id="", name="bash", arguments=arguments),), (f"result {number * 104729}",), "")


@settings(max_examples=100, deadline=None)
@given(
    before=st.integers(0, 30),
    period=st.integers(1, 12),
    copies=st.integers(4, 7),
    after=st.integers(0, 20),
    words=st.lists(WORDS, min_size=12, max_size=12),
)
def test_a_planted_loop_is_found_where_it_is(
    before: int, period: int, copies: int, after: int, words: list[str]
) -> None:
    """Any period of 1 to 12 calls, four times or more, anywhere: one loop, with its onset, end and copies."""
    unit = [
        ToolCall(id="", name="bash", arguments=json.dumps({"command": f"{words[n]} step-{n}-of-the-loop {n * 31337}"}))
        for n in range(period)
    ]
    looped = [(call, f"told {n}") for _ in range(copies) for n, call in enumerate(unit)]
    rounds = [honest(number) for number in range(before)]
    rounds += [Round(before + n, (call,), (result,), "") for n, (call, result) in enumerate(looped)]
    rounds += [honest(number) for number in range(1000, 1000 + after)]
    (loop,) = cross_turn_loops(round_._replace(turn=turn) for turn, round_ in enumerate(rounds))
    assert (loop.onset_turn, loop.last_turn) == (before, before + len(looped) - 1)
    assert (loop.period, loop.copies, loop.to_end) == (period, float(copies), after == 0)


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(0, 10_000), max_size=60, unique=True))
def test_work_without_repetition_is_never_a_loop(numbers: list[int]) -> None:
    """However long a conversation is: where no step comes twice, nothing is found."""
    assert cross_turn_loops(honest(number)._replace(turn=turn) for turn, number in enumerate(numbers)) == ()


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=300), more=st.text(max_size=300))
def test_any_text_is_read_without_a_crash(text: str, more: str) -> None:
    """Hostile answers, as arguments or as calls in the text, come to a likeness from 0 to 1 and to calls or none."""
    first, second = (call_text(ToolCall(id="", name="x", arguments=one)) for one in (text, more))
    assert 0.0 <= likeness(first, second) <= 1.0
    assert likeness(first, first) == 1.0
    written = f"<tool_call>{text}</tool_call><tool_call>{more}"
    assert all(call.name for call in calls_in_text(written))


def test_a_command_that_loops_is_compared() -> None:
    """A command of hundreds of pipes and blanks, as a looping model writes it, costs no more than any other."""
    flood = "ls " + "| head -5 " * 380 + "x"
    assert likeness(flood, "ls") < 0.9
    assert likeness("ls " + ("| tail" + " " * 30) * 100 + "x", "ls") < 0.9
    assert likeness("ls " + "| head -5 " * 380, "ls") == 1.0


def test_an_answer_of_very_many_calls_is_read_through() -> None:
    """A hundred thousand different calls in one turn are taken in one by one, and no loop is seen in them."""
    calls = tuple(ToolCall(id="", name="bash", arguments=f'{{"command": "ls {n}"}}') for n in range(100_000))
    results = tuple(str(n) for n in range(len(calls)))
    assert cross_turn_loops([Round(0, calls, results, "")]) == ()


def test_deep_nesting_is_no_call() -> None:
    """Five thousand brackets are not read, and harm nothing."""
    nested = '{"name": "x", "arguments": ' + "[" * 5000
    assert calls_in_text(f"<tool_call>{nested}") == ()
    assert call_text(ToolCall(id="", name="x", arguments="[" * 5000)).startswith("[")

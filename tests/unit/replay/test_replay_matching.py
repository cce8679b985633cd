"""Which recorded result a live call gets: by tool, likeness and order; measured on the bundled transcripts."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.classify import call_text, likeness
from soak.facts import Episode, Live, Message, ToolCall, make_episode
from soak.importers import load_corpus
from soak.replay.matching import Matcher
from soak.replay.script import NEUTRAL_FAILURE, Failures, Script

ROOT = Path(__file__).resolve().parents[3]
THRESHOLD = Live().match


def bundled() -> Iterator[Episode]:
    """Yield the bundled episodes."""
    for name in ("smoke", "swe_agent"):
        yield from load_corpus(ROOT / "transcripts" / name).episodes


def shell(command: str, name: str = "bash") -> ToolCall:
    """Return a call of a shell."""
    return ToolCall(id="x", name=name, arguments=json.dumps({"command": command}))


def recorded(*steps: tuple[str, str], name: str = "bash") -> Script:
    """Return a script of one call a turn and an answer at the end."""
    messages = [Message(role="user", content="Do it.")]
    for number, (command, result) in enumerate(steps):
        call = ToolCall(id=f"r{number}", name=name, arguments=json.dumps({"command": command}))
        messages += [
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", content=result, tool_call_id=call.id),
        ]
    return Script(make_episode("e", [*messages, Message(role="assistant", content="Done.")]))


def matcher(script: Script) -> Matcher:
    """Return a matcher that knows no failures of other episodes."""
    return Matcher(script, Failures([script]), THRESHOLD)


def results(of: Matcher, *commands: str) -> list[str]:
    """Return what these calls get, a turn each."""
    return [of.answer([shell(command)])[0].result for command in commands]


def test_the_record_followed_gives_the_record() -> None:
    """Every call of all 28 bundled conversations, made in their order, gets its own recorded result."""
    count = 0
    for episode in bundled():
        script = Script(episode)
        of = matcher(script)
        for call in (call for node in episode.nodes for call in node.message.tool_calls):
            (matched,) = of.answer([call])
            assert matched.recorded is not None
            assert (matched.how, matched.recorded.place) == ("exact", count_of(of) - 1)
            count += 1
    assert count == 748


def count_of(of: Matcher) -> int:
    """Return how many calls were answered."""
    return sum(of.counts.values())


def test_each_recorded_call_is_used_once_and_the_last_one_again() -> None:
    """Tests that were run three times tell their three results in order, and then the last one on and on."""
    of = matcher(
        recorded(("pytest", "3 failed"), ("sed x", ""), ("pytest", "1 failed"), ("sed y", ""), ("pytest", "ok"))
    )
    assert results(of, *["pytest"] * 5) == ["3 failed", "1 failed", "ok", "ok", "ok"]
    assert of.counts == {"exact": 3, "repeated": 2}


def test_the_record_goes_on_from_the_position_reached() -> None:
    """Of equal calls the one at or after the position wins, the nearest first; what lies behind comes after those."""
    steps = (("pytest", "first"), ("cat a.py", "a"), ("pytest", "second"), ("cat b.py", "b"), ("pytest", "third"))
    of = matcher(recorded(*steps))
    assert results(of, "cat a.py", "pytest", "cat b.py", "pytest", "pytest") == ["a", "second", "b", "third", "first"]


def test_a_better_fit_behind_beats_a_worse_one_ahead() -> None:
    """The bonus for order is small: the very call that was recorded earlier is that call."""
    of = matcher(
        recorded(
            ("cat src/reader_one.py tests/a_b_c.py", "one"),
            ("make", ""),
            ("cat src/reader_two.py tests/a_b_c.py", "two"),
        )
    )
    assert results(of, "make", "cat src/reader_one.py tests/a_b_c.py") == ["", "one"]


def test_another_tool_never_matches() -> None:
    """The same arguments for another tool are another call."""
    of = matcher(recorded(("ls", "a.py")))
    (matched,) = of.answer([shell("ls", name="python")])
    assert (matched.result, matched.how) == (NEUTRAL_FAILURE, "unmatched_neutral")


def test_a_call_that_fits_none_gets_the_same_failure_each_time() -> None:
    """A recorded failure of that tool, chosen by the call: a model that insists gets the same again and again."""
    steps = [(f"cat missing_{n}.py", f"cat: missing_{n}.py: No such file or directory") for n in range(4)]
    of = matcher(recorded(*steps, ("ls", "a.py")))
    failures = {result for _, result in steps}
    insisting = results(of, *["terraform apply -auto-approve"] * 3)
    assert len(set(insisting)) == 1
    assert set(insisting) <= failures
    assert len({result for n in range(40) for result in results(of, f"frobnicate --level={n * 977}")}) > 1
    assert of.counts == {"unmatched_recorded": 43}


def test_a_long_failure_is_no_plausible_answer_to_another_call() -> None:
    """A page of failing tests is not what a mistyped command prints."""
    of = matcher(recorded(("pytest", "E   assert 1 == 2\n" * 200 + "[exit code: 1]")))
    assert results(of, "terraform apply") == [NEUTRAL_FAILURE]


def test_parallel_calls_are_matched_each_for_itself() -> None:
    """Two equal calls of one turn get two recorded results where there are two."""
    of = matcher(recorded(("date", "Monday"), ("date", "Tuesday")))
    assert [matched.result for matched in of.answer([shell("date"), shell("date"), shell("date")])] == [
        "Monday",
        "Tuesday",
        "Tuesday",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pytest -q tests/test_a.py", "cd /testbed && python -m pytest -q ./tests/test_a.py 2>&1 | tail -20"),
        ('grep -rn "def f" src', "grep -rn 'def f' src"),
        ("ls   -la\n", "ls -la"),
    ],
)
def test_spelling_that_changes_nothing_is_the_same_call(one: str, other: str) -> None:
    """Blanks, quotes, `cd`, output, a pipe into tail, `./` and `python -m pytest` are taken out before comparing."""
    assert likeness(call_text(shell(one)), call_text(shell(other))) == 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pytest -q tests/test_a.py", "pytest -q tests/test_b.py"),
        ("cat soak/reader.py", "cat soak/render.py"),
        ("git log --oneline", "git log -p"),
    ],
)
def test_another_file_or_flag_is_another_call(one: str, other: str) -> None:
    """Characters alone would call these the same."""
    assert likeness(call_text(shell(one)), call_text(shell(other))) < THRESHOLD


def respelt(call: ToolCall, dice: random.Random) -> ToolCall:
    """Return a call that does the same, spelt as another agent might."""
    arguments = json.loads(call.arguments)
    if "command" in arguments:
        command = arguments["command"]
        ways = (
            f"cd /testbed && {command}",
            f"{command} 2>&1 | tail -20",
            command.replace('"', "'"),
            re.sub(r"(\s)(\w+/[\w/.]+)", r"\1./\2", command),
            command.replace("pytest", "python -m pytest", 1)
            if command.startswith("pytest")
            else f"{command} | head -50",
            re.sub(r"\b(\d{2,3})\b", lambda found: str(int(found[1]) + 10), command),
        )
        return shell(dice.choice(ways))
    for name, value in arguments.items():
        words = value.split(" ") if isinstance(value, str) and len(value) > 60 else []
        for _ in range(len(words) // 15):
            words[dice.randrange(len(words))] = dice.choice(("value", "item", "self.x"))
        arguments[name] = " ".join(words) if words else value
    return ToolCall(id="", name=call.name, arguments=json.dumps(dict(reversed(arguments.items()))))


def test_the_threshold_tells_respelt_calls_from_other_calls() -> None:
    """Of 734 bundled calls respelt nearly all are found at 0.9, of 9,990 pairs of different calls 60 taken for one."""
    dice, found, made, mistaken, pairs = random.Random(5), 0, 0, 0, 0
    for episode in bundled():
        calls = {(c.name, call_text(c)): c for node in episode.nodes for c in node.message.tool_calls}
        for (name, text), call in calls.items():
            made += 1
            found += likeness(text, call_text(respelt(call, dice))) >= THRESHOLD
            others = [other for known, other in calls if known == name and other != text]
            pairs += len(others)
            mistaken += sum(likeness(text, other) >= THRESHOLD for other in others)
    assert found / made >= 0.99
    assert mistaken / pairs <= 0.01


def test_a_respelt_conversation_gets_its_own_results() -> None:
    """Whole bundled conversations with every call respelt: all but a few get the result of the call they stand for."""
    dice, right, made = random.Random(6), 0, 0
    for episode in bundled():
        of = matcher(Script(episode))
        for place, call in enumerate(call for node in episode.nodes for call in node.message.tool_calls):
            (matched,) = of.answer([respelt(call, dice)])
            made += 1
            right += matched.recorded is not None and matched.result == Script(episode).calls[place].result
    assert right / made >= 0.99


@pytest.mark.parametrize("command", ["ls " + "| head -5 " * 300 + "x", "cd a && " * 400, "|" + " " * 3900])
def test_hostile_commands(command: str) -> None:
    """A pipe that is spelt out hundreds of times is compared at once, and what it ends in is part of it."""
    assert likeness(command, command + " x") < 1.0
    assert likeness(command, command) == 1.0


def test_every_head_at_the_end_is_left_out() -> None:
    """`head` and `tail` at the end of a pipe say how much is shown, however many there are."""
    assert likeness("ls -l | sort | head -n 5 | tail -3 |head", "ls -l | sort") == 1.0
    assert likeness("ls -l | header", "ls -l") < 1.0

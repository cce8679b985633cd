"""Loops across turns: found where they were planted, and not in honest agents' work."""

import json
from pathlib import Path

import pytest

from soak.classify import Round, RoundWatch, cross_turn_loops, rounds_of
from soak.errors import InputError
from soak.facts import Episode, Message, ToolCall
from soak.importers import Import, load_corpus

ROOT = Path(__file__).resolve().parents[3]
REAL = ROOT.parent / "shared" / "transcripts-real"
# A fixture of an evaluation tool in which a scripted model runs `ls` five times: a loop, and no agent's work.
SCRIPTED = "log_message_deduplication"


def call(command: str, name: str = "bash", id_: str = "c") -> ToolCall:
    """Return one call."""
    return ToolCall(id=id_, name=name, arguments=json.dumps({"command": command}))


def turns(*steps: tuple[str, str] | str) -> list[Round]:
    """Return rounds of one step each: a command and its result, or a text."""
    return [
        Round(turn, (), (), step) if isinstance(step, str) else Round(turn, (call(step[0]),), (step[1],), "")
        for turn, step in enumerate(steps)
    ]


def work(count: int, first: int = 0) -> list[tuple[str, str]]:
    """Return steps that differ."""
    return [(f"sed -n {n * 40},{n * 40 + 39}p module_{n}.py", f"source {n}") for n in range(first, first + count)]


def test_the_same_call_with_the_same_result_four_times_is_a_loop() -> None:
    """Onset, last turn, period, copies and an excerpt are told; three copies are none."""
    again = ("pytest -q tests/test_a.py", "1 failed, 3 passed in 0.31s")
    (loop,) = cross_turn_loops(turns(*work(5), *[again] * 6))
    assert (loop.kind, loop.onset_turn, loop.last_turn, loop.period, loop.copies) == ("same_calls", 5, 10, 1, 6.0)
    assert loop.to_end
    assert "pytest -q" in loop.unit
    assert "6 times over turns 5 to 10" in loop.text
    assert cross_turn_loops(turns(*work(5), *[again] * 3)) == ()


def test_times_in_a_result_do_not_make_it_another() -> None:
    """A run's duration, a clock time and an address differ from run to run; the failure is the same."""
    steps = [
        ("pytest -q", f"1 failed in {n}.{n}1s at 2026-01-01 10:0{n}:00, <Foo object at 0x7f00{n}a>") for n in range(5)
    ]
    (loop,) = cross_turn_loops(turns(*steps))
    assert loop.copies == 5


def test_two_calls_in_turn_are_a_loop_with_that_period() -> None:
    """A B A B A B: three copies of a period of two calls."""
    pair = [("make", "Error 2"), ("cat Makefile", "all:")]
    (loop,) = cross_turn_loops(turns(*work(3), *pair * 3, *work(2, 50)))
    assert (loop.period, loop.copies, loop.onset_turn, loop.last_turn) == (2, 3.0, 3, 8)
    assert not loop.to_end
    assert "then other work" in loop.text


def test_parallel_calls_count_one_by_one() -> None:
    """The same two calls in every turn are a period of two, however they are shared out among the turns."""
    both = Round(0, (call("ls"), call("pwd")), ("a.py", "/src"), "")
    (loop,) = cross_turn_loops([both._replace(turn=turn) for turn in range(4)])
    assert (loop.period, loop.copies, loop.last_turn) == (2, 4.0, 3)


def test_many_equal_calls_in_one_turn_are_no_loop_across_turns() -> None:
    """That is a matter of the turn itself, which has a class for it."""
    many = Round(0, (call("ls"),) * 9, ("a.py",) * 9, "")
    assert cross_turn_loops([many]) == ()


def test_nearly_the_same_call_needs_more_copies() -> None:
    """A counter in an argument does not hide a loop whose result never changes."""
    body = "python scripts/migrate_database.py --verbose --configuration config/production.yaml --attempt"
    steps = [(f"{body} {n}", "error: no such table") for n in range(6)]
    (loop,) = cross_turn_loops(turns(*steps))
    assert (loop.kind, loop.copies) == ("near_calls", 6.0)
    assert cross_turn_loops(turns(*steps[:5])) == ()


def test_one_other_call_in_between_does_not_hide_a_loop() -> None:
    """A single odd call among many equal ones leaves the loop what it is."""
    again = ("pytest -q", "1 failed")
    (loop,) = cross_turn_loops(turns(*[again] * 3, ("git status", "clean"), *[again] * 3))
    assert (loop.onset_turn, loop.last_turn, loop.copies) == (0, 6, 6.0)


def test_the_same_answer_without_a_call_is_a_loop() -> None:
    """Three equal long texts are one; short ones, such as yes, need five."""
    text = "I will now look at the file and tell you what is in it."
    (loop,) = cross_turn_loops(turns("Hello, what can I do?", text, text, text))
    assert (loop.kind, loop.onset_turn, loop.copies) == ("same_answer", 1, 3.0)
    assert cross_turn_loops(turns(*["Yes."] * 4)) == ()
    assert len(cross_turn_loops(turns(*["Yes."] * 5))) == 1


@pytest.mark.parametrize(
    "steps",
    [
        [step for n in range(6) for step in ((f"edit {n}", "ok"), ("pytest -q", f"{6 - n} failed"))],
        [step for n in range(6) for step in ((f"patch -p1 < {n}.diff", "patched"), ("pytest -q", "1 failed"))],
        [("sleep 30; kubectl get pods", f"{n} of 9 ready") for n in range(9)],
        [(f"sed -n {n},{n + 99}p big.py", f"lines {n}") for n in range(1, 1200, 100)],
        [("git status", "clean"), *work(4), ("git status", "clean"), *work(4, 9), ("git status", "clean")],
    ],
    ids=["fixed one by one", "tests after each edit", "waiting", "paging", "looking again"],
)
def test_honest_repetition_is_no_loop(steps: list[tuple[str, str]]) -> None:
    """Tests run again after each edit, a file read page by page, a state that changes: new work, or a new result."""
    assert cross_turn_loops(turns(*steps)) == ()


def chains(episode: Episode) -> list[Message]:
    """Return the deepest chain of an episode's messages."""
    depth: list[int] = []
    for node in episode.nodes:
        depth.append(1 + (depth[node.parent] if node.parent is not None else 0))
    at: int | None = max(range(len(depth)), key=depth.__getitem__, default=None)
    messages: list[Message] = []
    while at is not None:
        messages.append(episode.nodes[at].message)
        at = episode.nodes[at].parent
    return messages[::-1]


@pytest.mark.parametrize("name", ["smoke", "swe_agent"])
def test_no_loop_in_the_bundled_transcripts(name: str) -> None:
    """Agents that worked are not said to loop: 28 conversations of 468 turns."""
    for episode in load_corpus(ROOT / "transcripts" / name).episodes:
        assert cross_turn_loops(rounds_of(chains(episode))) == (), episode.id


def test_no_loop_in_real_transcripts() -> None:
    """No real agent's conversation is said to loop; the one that a scripted model plays in a test fixture is."""
    if not REAL.is_dir():
        pytest.skip("the folder of real transcripts is not beside the checkout")
    looped = set()
    without_text = {"tracelab-rounds", "weka-kv-trace", "mooncake-trace"}
    sources = [path for path in REAL.rglob("*") if path.is_file() and path.parent.name not in without_text]
    for source in sorted(sources):
        try:
            for episode in Import([source]).episodes():
                if cross_turn_loops(rounds_of(chains(episode))):
                    looped.add(source.name.partition(".")[0])
        except InputError:
            continue  # a file that is not a transcript, or is broken on purpose
    assert looped == {SCRIPTED}


def test_live_equals_offline() -> None:
    """What a watch says after each round is what the rounds so far come to."""
    steps = turns(*work(3), *[("make", "Error 2"), ("cat Makefile", "all:")] * 4, *work(3, 30))
    watch = RoundWatch()
    for count, round_ in enumerate(steps, 1):
        watch.add(round_)
        assert watch.loops() == cross_turn_loops(steps[:count])


def test_rounds_are_read_from_messages() -> None:
    """Each answer is a round; results go to their calls by id, and by place where the ids do not fit."""
    messages = [
        Message(role="user", content="Go."),
        Message(role="assistant", tool_calls=(call("ls", id_="a"), call("pwd", id_="b"))),
        Message(role="tool", content="/src", tool_call_id="b"),
        Message(role="tool", content="x.py", tool_call_id="a"),
        Message(role="assistant", tool_calls=(call("make", id_="c"),)),
        Message(role="tool", content="done", tool_call_id="lost"),
        Message(role="assistant", content="That was it."),
    ]
    first, second, third = rounds_of(messages, first=3)
    assert (first.turn, first.results) == (3, ("x.py", "/src"))
    assert second.results == ("done",)
    assert (third.turn, third.calls, third.said) == (5, (), "That was it.")


def test_a_hundred_thousand_calls_in_one_turn() -> None:
    """Of the calls of one turn the first 256 are looked at, so that it ends."""
    calls = tuple(call(f"ls {number}") for number in range(100_000))
    rounds = [Round(0, calls, ("x",) * len(calls), ""), *turns(*[("ls", "a")] * 4)]
    assert [loop.copies for loop in cross_turn_loops(rounds)] == [4.0]

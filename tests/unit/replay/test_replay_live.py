"""Live replay on a real server: the model's own answers carry the conversation on, the record answers its calls."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEngine, FakeServer
from fakes.faults import loop_answer, stream
from fakes.following import Following, lines_of
from rigs.replaying import Rig, scenario

from soak.errors import RunFolderError
from soak.facts import Budget, ConversationEnd, Episode, Live, Load, Message, Record, ToolCall, Turn, make_episode
from soak.importers import load_corpus
from soak.replay.script import NEUTRAL_FAILURE

SMOKE = Path("transcripts/smoke")
DEEP = Path("transcripts/swe_agent")
UNITS = "pocket-units"
ENDING = {"pocket-boundary": "record_over", "pocket-duration": "record_over", UNITS: "answered"}


def episodes(folder: Path = SMOKE, *names: str) -> tuple[Episode, ...]:
    """Return the episodes of a bundled corpus, or those named."""
    return tuple(one for one in load_corpus(folder).episodes if not names or one.id in names)


def rig(path: Path, *, arms: tuple[str, ...] = ("candidate",), corpus: tuple[Episode, ...] = (), **changes: Any) -> Rig:
    """Return a rig for live replay."""
    return Rig(path / "run", scenario(replay="live", **changes), corpus or episodes(), arms)


def ends(run: Rig) -> dict[tuple[str, str], ConversationEnd]:
    """Return how each conversation ended, by episode and arm."""
    with run.folder.history() as history:  # type: ignore[union-attr]
        found = list(history.conversation_ends())
    assert len({end.key for end in found}) == len(found), "a conversation ended twice"
    return {(end.episode, end.arm): end for end in found}


def whole(run: Rig, end: ConversationEnd) -> tuple[Message, ...]:
    """Return a conversation as it was when it ended, read back from the history."""
    with run.folder.history() as history:  # type: ignore[union-attr]
        return history.prefix(end.last or "")


async def lived(run: Rig, way: str, at: int = 2, folder: Path = SMOKE, **engine: Any) -> Following:
    """Sit through the run with a model that goes the way `way`."""
    lines = lines_of(folder)
    policy = Following(lines, {line["id"]: (way, at) for line in lines})
    async with FakeServer(policy, engine=FakeEngine(**engine)) as server:
        await run.sit(dict.fromkeys(run.arms, server))
    run.assert_one_end_each()
    return policy


async def test_a_model_that_says_what_was_recorded_repeats_the_record(tmp_path: Path) -> None:
    """Answers as recorded get the recorded results, message by message, and every conversation ends with its record."""
    run = rig(tmp_path)
    await lived(run, "follow")
    for episode in run.episodes:
        end = ends(run)[episode.id, "candidate"]
        assert (end.reason, end.turns) == (ENDING[episode.id], len(episode.turns))
        recorded = [node.message for node in episode.nodes]
        told = whole(run, end)
        assert [(m.role, m.content) for m in told] == [(m.role, m.content) for m in recorded[: len(told)]]
        assert sum(end.counts[how] for how in ("exact", "near", "repeated") if how in end.counts) == sum(
            len(message.tool_calls) for message in recorded
        )
        assert not any(how.startswith("unmatched") for how in end.counts)


async def test_calls_spelt_otherwise_get_the_same_results(tmp_path: Path) -> None:
    """Other blanks, key order, `cd`, and a pipe into tail change nothing in what comes back."""
    run = rig(tmp_path)
    await lived(run, "respell")
    for episode in run.episodes:
        end = ends(run)[episode.id, "candidate"]
        recorded = [n.message.content for n in episode.nodes if n.message.role == "tool"]
        assert [m.content for m in whole(run, end) if m.role == "tool"] == recorded
        assert end.reason == ENDING[episode.id]


async def test_text_mode_reads_calls_from_the_text(tmp_path: Path) -> None:
    """Where calls stand in the text, they are found there, and the results come as text of the user."""
    run = rig(tmp_path)
    run.tool_mode = "text"
    policy = await lived(run, "follow")
    assert {end.episode: end.reason for end in ends(run).values()} == ENDING
    last = max(policy.asked, key=lambda body: len(body["messages"]))
    assert {message["role"] for message in last["messages"]} == {"system", "user", "assistant"}
    assert "<tool_response>" in last["messages"][-1]["content"]
    assert "<tool_call>" in last["messages"][-2]["content"]


@pytest.mark.parametrize(
    ("way", "reason", "turns"), [("loop", "loop", 6), ("stop", "answered_early", 3), ("astray", "max_turns", 6)]
)
async def test_ends_have_their_reasons(tmp_path: Path, way: str, reason: str, turns: int) -> None:
    """A loop, an answer without a call, and calls that lead nowhere each end the conversation under their own name."""
    run = rig(tmp_path, corpus=episodes(SMOKE, UNITS))
    await lived(run, way)
    end = ends(run)[UNITS, "candidate"]
    assert (end.reason, end.turns) == (reason, turns)


async def test_a_call_that_nobody_made_gets_a_recorded_failure_and_is_counted(tmp_path: Path) -> None:
    """Unmatched calls get a result of that tool that failed in the corpus; a tool that never failed, a neutral one."""
    corpus = episodes(SMOKE, UNITS) + episodes(DEEP, "drover-fifo", "larder-none")
    run = rig(tmp_path, corpus=corpus, budget=Budget(passes=1))
    await lived(run, "astray", at=2)
    end = ends(run)[UNITS, "candidate"]
    assert end.counts["unmatched_recorded"] == 4
    results = {str(message.content) for message in whole(run, end) if message.role == "tool"}
    recorded = {str(node.message.content) for episode in corpus for node in episode.nodes}
    assert results <= recorded
    lonely = rig(tmp_path / "alone", corpus=(script("bash", "ls", "a.py"),))
    async with FakeServer(Following([plain(lonely.episodes[0])], {"script": ("astray", 0)})) as server:
        await lonely.sit({"candidate": server})
    end = ends(lonely)["script", "candidate"]
    assert end.counts["unmatched_neutral"] == end.turns
    assert NEUTRAL_FAILURE in [message.content for message in whole(lonely, end)]


def script(*calls: str) -> Episode:
    """Return an episode of one task and the calls (name, command, result) after one another, then an answer."""
    messages = [Message(role="user", content="Please look after the files of this project.")]
    for number, (name, command, result) in enumerate(zip(calls[::3], calls[1::3], calls[2::3], strict=True)):
        call = ToolCall(id=f"r{number}", name=name, arguments=json.dumps({"command": command}))
        messages.append(Message(role="assistant", tool_calls=(call,)))
        messages.append(Message(role="tool", content=result, tool_call_id=call.id))
    messages.append(Message(role="assistant", content="Done."))
    return make_episode("script", messages, tools=({"type": "function", "function": {"name": "bash"}},))


def plain(episode: Episode) -> dict[str, Any]:
    """Return an episode as a corpus line, so far as `Following` reads it."""
    return {
        "id": episode.id,
        "messages": [
            {
                "role": node.message.role,
                "content": node.message.content,
                "tool_calls": [{"name": c.name, "arguments": c.arguments} for c in node.message.tool_calls],
            }
            for node in episode.nodes
        ],
    }


async def test_a_script_of_what_users_say_is_carried_on_by_the_models_answers(tmp_path: Path) -> None:
    """Prefixes without any recorded answer are usable: each user message comes after the model's own answer."""

    users = [Message(role="user", content=f"Question {n}: tell me about the rivers of this country.") for n in range(4)]
    episode = make_episode("asked", users, turns=[Turn(index=n, prefix=n) for n in range(4)])
    run = rig(tmp_path, corpus=(episode,))
    async with FakeServer() as server:
        await run.sit({"candidate": server})
    end = ends(run)["asked", "candidate"]
    assert (end.reason, end.turns) == ("answered", 4)
    assert [message.role for message in whole(run, end)] == ["user", "assistant"] * 4
    assert [m.content for m in whole(run, end) if m.role == "user"] == [m.content for m in users]


async def test_a_full_context_ends_the_conversation(tmp_path: Path) -> None:
    """A prefix that does not fit is a skipped turn and the end, not an error."""
    run = rig(tmp_path, corpus=episodes(DEEP, "drover-fifo"))
    await lived(run, "follow", folder=DEEP, context_tokens=2600)
    end = ends(run)["drover-fifo", "candidate"]
    assert end.reason == "context_full"
    assert run.outcomes() == {"finished": end.turns - 1, "skipped": 1}


async def test_a_budget_of_turns_is_an_upper_bound(tmp_path: Path) -> None:
    """No arm is asked more turns than the budget has, and a conversation it cuts short says so."""
    run = rig(tmp_path, budget=Budget(turns=6), live=Live(max_turns=1))
    await lived(run, "astray", at=0)
    assert len(run.starts()) == 6
    assert sorted(end.reason for end in ends(run).values()) == ["budget", "max_turns"]


async def test_two_arms_hold_two_conversations(tmp_path: Path) -> None:
    """Each arm's history has its own answers; the first turn is the same request in both, later ones are not."""
    run = rig(tmp_path, arms=("left", "right"))
    lines = lines_of(SMOKE)
    async with (
        FakeServer(Following(lines)) as left,
        FakeServer(Following(lines, {line["id"]: ("stop", 1) for line in lines})) as right,
    ):
        await run.sit({"left": left, "right": right})
    found = ends(run)
    assert {key[0]: end.reason for key, end in found.items() if key[1] == "left"} == ENDING
    assert {end.reason for key, end in found.items() if key[1] == "right"} == {"answered_early"}
    requests = {(started.key.episode, started.key.turn, started.key.arm): started.request for started in run.starts()}
    for episode in run.episodes:
        assert requests[episode.id, 0, "left"] == requests[episode.id, 0, "right"]


@pytest.mark.parametrize("stopped_after", [1, 3, 6, 8, 11])
async def test_a_run_broken_off_goes_on_exactly_where_it_was(tmp_path: Path, stopped_after: int) -> None:
    """Broken off after any number of turns, a run ends with the same messages as one that never was."""
    at_once, broken = rig(tmp_path / "a", load=Load(in_flight=2)), rig(tmp_path / "b", load=Load(in_flight=2))
    await lived(at_once, "follow")
    count = 0

    def stop(record: Record) -> None:
        nonlocal count
        count += 1
        if count == stopped_after:
            broken.switch.stop("interrupt")

    broken.ear.on_end = stop
    await lived(broken, "follow")
    broken.ear.on_end = lambda record: None
    await lived(broken, "follow")
    want, have = ends(at_once), ends(broken)
    assert {key: (end.reason, end.turns, end.last, end.counts) for key, end in have.items()} == {
        key: (end.reason, end.turns, end.last, end.counts) for key, end in want.items()
    }
    finished = [key for key, record in broken.final().items() if record.outcome == "finished"]
    assert len(finished) == sum(end.turns for end in want.values())


async def test_answers_that_lead_elsewhere_now_are_refused(tmp_path: Path) -> None:
    """If stored answers lead to other messages than were sent then, the run is not gone on with as if nothing were."""
    run = rig(tmp_path, corpus=episodes(SMOKE, UNITS))
    run.ear.on_end = lambda record: run.switch.stop("interrupt") if record.key.turn == 1 else None
    await lived(run, "follow")
    with closing(sqlite3.connect(run.path / "history.sqlite")) as history:
        history.execute('UPDATE ends SET body = replace(body, \'"content":"\', \'"content":"Well. \')')
        history.commit()
    with pytest.raises(RunFolderError, match="cannot be gone on with"):
        await lived(run, "follow")


async def test_own_garbage_does_not_excuse_the_same_garbage(tmp_path: Path) -> None:
    """What the model itself looped on stands in its history, and the next turn's loop is still a loop."""
    users = [Message(role="user", content=f"Question {n}, please.") for n in range(3)]
    episode = make_episode("asked", users, turns=[Turn(index=n, prefix=n) for n in range(3)])
    run = rig(tmp_path, corpus=(episode,))
    async with FakeServer(
        lambda ask: stream(loop_answer(ask, unit=" and once more the same words again"), ask)
    ) as server:
        await run.sit({"candidate": server})
    assert run.classes() == {"garbage_loop": 3}
    assert ends(run)["asked", "candidate"].reason == "answered"

"""What the recorded corpora under transcripts/ promise to those who test with them."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ops.recorder.corpus import line_of
from ops.recorder.record import depth_of, scripts, size_of
from ops.recorder.tools import BASH_LIMIT, TOOLS, VIEW_LIMIT
from soak.facts import Episode, Message, Turn, make_episode
from soak.facts.codec import clean, decode

ROOT = Path(__file__).parents[3]
TRANSCRIPTS = ROOT / "transcripts"
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
TYPES = {"string": str, "integer": int}


def raw_episodes(corpus: str) -> list[dict[str, Any]]:
    """Return the lines of a corpus as plain JSON, file by file."""
    return [json.loads(line) for file in sorted((TRANSCRIPTS / corpus).glob("*.jsonl")) for line in file.open("rb")]


def episode_of(raw: dict[str, Any]) -> Episode:
    """Return the episode of one corpus line."""
    messages = [decode(json.dumps(message), Message) for message in raw["messages"]]
    turns = [decode(json.dumps(turn), Turn) for turn in raw["turns"]]
    return make_episode(raw["id"], messages, turns=turns, tools=tuple(raw["tools"]), meta=raw["meta"])


@pytest.fixture(scope="module", params=["smoke", "swe_agent"])
def raws(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return raw_episodes(request.param)


@pytest.fixture(scope="module")
def deep() -> list[Episode]:
    return [episode_of(raw) for raw in raw_episodes("swe_agent")]


def test_corpus_size(deep: list[Episode]) -> None:
    """There are at least 24 episodes, and at least 8 of them have 30 or more turns."""
    assert len(deep) >= 24
    assert len({episode.id for episode in deep}) == len(deep)
    assert sum(len(episode.turns) >= 30 for episode in deep) >= 8


def test_corpus_depth(deep: list[Episode]) -> None:
    """At least 4 episodes reach 240,000 characters, and every step of depth below that occurs."""
    depths = [depth_of(episode) for episode in deep]
    assert sum(depth >= 240_000 for depth in depths) >= 4
    steps = [(10_000, 30_000), (30_000, 60_000), (60_000, 100_000), (100_000, 150_000), (150_000, 240_000)]
    assert all(any(low <= depth < high for depth in depths) for low, high in steps)


def test_smoke_is_small() -> None:
    """The smoke corpus has three episodes of 3 to 5 turns, with a parallel call and a reasoning among them."""
    episodes = [episode_of(raw) for raw in raw_episodes("smoke")]
    assert [3 <= len(episode.turns) <= 5 and depth_of(episode) < 6000 for episode in episodes] == [True] * 3
    messages = [node.message for episode in episodes for node in episode.nodes]
    assert any(len(message.tool_calls) > 1 for message in messages)
    assert any(message.reasoning for message in messages)


def test_episodes_share_their_beginnings(deep: list[Episode]) -> None:
    """All episodes share the system prompt; several begin with the same long exploration, by digest."""
    assert len({episode.nodes[0].digest for episode in deep}) == 1
    shared = Counter(node.digest for episode in deep for node in episode.nodes)
    long = [
        episode.id
        for episode in deep
        if sum(len(node.message.content or "") for node in episode.nodes if shared[node.digest] > 1) >= 80_000
    ]
    assert len(long) >= 8
    assert sum(count > 1 for count in shared.values()) > 150


def test_variety(deep: list[Episode]) -> None:
    """There are parallel calls, reasoning, failed commands, refused edits, long outputs and long answers."""
    messages = [node.message for episode in deep for node in episode.nodes]
    results = [str(message.content) for message in messages if message.role == "tool"]
    assert sum(len(message.tool_calls) > 1 for message in messages) >= 100
    assert sum(bool(message.reasoning) for message in messages) >= 10
    assert sum("[exit code: " in result for result in results) >= 25
    assert sum(result.startswith("Error: ") for result in results) >= 5
    assert sum("FAILED" in result or "Traceback" in result for result in results) >= 20
    assert sum(len(result) >= 15_000 for result in results) >= 25
    answers = [size_of(message) for message in messages if message.role == "assistant"]
    assert sum(size >= 2000 for size in answers) >= 12


def test_every_call_has_its_result(raws: list[dict[str, Any]]) -> None:
    """The results of an answer's calls follow it in the order of the calls; there is no other tool message."""
    for raw in raws:
        expected: list[str] = []
        for message in raw["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == expected.pop(0), raw["id"]
            else:
                assert not expected, raw["id"]
                expected = [call["id"] for call in message.get("tool_calls", [])]
        assert not expected


def test_call_ids_are_unique(raws: list[dict[str, Any]]) -> None:
    """Within an episode no two calls have the same id."""
    for raw in raws:
        ids = [call["id"] for message in raw["messages"] for call in message.get("tool_calls", [])]
        assert len(set(ids)) == len(ids)


def test_arguments_fit_the_schema(raws: list[dict[str, Any]]) -> None:
    """The arguments of every call parse and have the required and no unknown properties, of the right types."""
    for raw in raws:
        assert raw["tools"] == list(TOOLS)
        for call in (call for message in raw["messages"] for call in message.get("tool_calls", [])):
            schema, arguments = SCHEMAS[call["name"]], json.loads(call["arguments"])
            assert set(schema["required"]) <= set(arguments) <= set(schema["properties"])
            for name, value in arguments.items():
                assert isinstance(value, TYPES[schema["properties"][name]["type"]])


def test_turns_fit_the_messages(raws: list[dict[str, Any]]) -> None:
    """Each assistant message is the answer of one turn, right after its prefix; pauses are not negative."""
    for raw in raws:
        answers = [number for number, message in enumerate(raw["messages"]) if message["role"] == "assistant"]
        assert [turn["answer"] for turn in raw["turns"]] == answers
        assert all(turn["prefix"] == turn["answer"] - 1 for turn in raw["turns"])
        assert all(turn.get("wait_s", 0) >= 0 for turn in raw["turns"])


def test_texts_can_be_sent(raws: list[dict[str, Any]]) -> None:
    """No text holds a lone surrogate or a NUL, none is empty, and none is longer than the tools allow."""
    for raw in raws:
        for message in raw["messages"]:
            texts = [message.get("content"), message.get("reasoning")]
            texts += [call["arguments"] for call in message.get("tool_calls", [])]
            for text in filter(None, texts):
                assert clean(text) == text
                assert "\0" not in text
            assert message.get("content") or message.get("tool_calls")
            assert len(message.get("content") or "") <= max(BASH_LIMIT, VIEW_LIMIT) + 200


def test_nothing_of_the_recording_machine_leaks(raws: list[dict[str, Any]]) -> None:
    """No real path, user or host of the machine that recorded stands in a corpus."""
    text = "\n".join(json.dumps(raw, ensure_ascii=False) for raw in raws)
    for leak in ("soak-recorder", "/root", "/Users/", "/opt/", "pyenv", "site-packages", "venv", "conda"):
        assert leak not in text, leak
    assert not re.search(r"/home/(?!agent\b)\w", text)


def test_every_episode_is_resolved(raws: list[dict[str, Any]]) -> None:
    """The defect's tests failed before and passed after, the suite passed at the end, and the last call is submit."""
    for raw in raws:
        check = raw["meta"]["check"]
        assert raw["meta"]["resolved"] is True
        assert "failed" in check["before"]
        assert "passed" in check["after"]
        assert not re.search("failed|error", check["after"] + check["suite"])
        calls = [call["name"] for message in raw["messages"] for call in message.get("tool_calls", [])]
        assert (calls[-1], calls.count("submit")) == ("submit", 1)


def test_no_answer_is_a_loop(raws: list[dict[str, Any]]) -> None:
    """No recorded answer repeats one line over and over, and answers of different turns differ."""
    for raw in raws:
        answers = [message.get("content") or "" for message in raw["messages"] if message["role"] == "assistant"]
        for answer in answers:
            lines = Counter(line.strip() for line in answer.splitlines() if len(line.strip()) > 12)
            assert not lines or max(lines.values()) <= 3, answer[:200]
        assert len(set(answers)) == len(answers)


@pytest.mark.parametrize("corpus", ["smoke", "swe_agent"])
def test_card_tells_the_truth(corpus: str) -> None:
    """CORPUS.md names every episode and the right hash of every file, and the licence."""
    card = (TRANSCRIPTS / corpus / "CORPUS.md").read_text(encoding="utf-8")
    for file in (TRANSCRIPTS / corpus).glob("*.jsonl"):
        assert f"`{hashlib.sha256(file.read_bytes()).hexdigest()}`" in card
    assert all(f"| {raw['id']} |" in card for raw in raw_episodes(corpus))
    assert "Apache-2.0" in card


@pytest.mark.parametrize("corpus", ["smoke", "swe_agent"])
def test_lines_are_spelled_by_the_codec(corpus: str) -> None:
    """Reading a line into facts and writing it again gives the same bytes; there is one script for each episode."""
    count = 0
    for file in sorted((TRANSCRIPTS / corpus).glob("*.jsonl")):
        for line in file.open("rb"):
            assert line_of(episode_of(json.loads(line))) == line
            count += 1
    assert count == len(scripts(corpus))

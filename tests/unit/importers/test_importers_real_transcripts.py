"""Imports of 62 real transcripts give the counts that are known of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from soak.errors import TranscriptError
from soak.facts import Episode, text_of
from soak.importers import Import, SourceReport, check_corpus

FOLDER = Path(__file__).parents[4] / "shared" / "transcripts-real"
ABSENT = "the folder of real transcripts is not beside the checkout"
EXPECTED: dict[str, list[dict[str, Any]]] = (
    json.loads((FOLDER / "expected.json").read_text()) if FOLDER.is_dir() else {}
)
SHAPES = ("mooncake-trace", "weka-kv-trace", "tracelab-rounds")
WITHOUT = ("tau2-bench", "bfcl-multi-turn/possible_answer")

pytestmark = [pytest.mark.transcripts_real, pytest.mark.skipif(not EXPECTED, reason=ABSENT)]


def keys(*prefixes: str, but: tuple[str, ...] = ()) -> list[str]:
    """Return the files of these kinds; a stand-in where the folder is absent, so that the skip is shown."""
    found = [key for key in EXPECTED if key.startswith(prefixes or "") and not (but and key.startswith(but))]
    return found or ["absent"]


def imported(key: str) -> tuple[list[Episode], SourceReport]:
    """Import one source; return its episodes and report."""
    run = Import([FOLDER / key])
    episodes = list(run.episodes())
    (report,) = run.reports
    return episodes, report


def total(expected: list[dict[str, Any]], name: str) -> int | None:
    """Return the sum of a count over the conversations of a source; None where it is not told."""
    return sum(one[name] for one in expected) if name in expected[0] else None


def compare(report: SourceReport, expected: list[dict[str, Any]]) -> None:
    """Compare all that a report and the list of what is known have in common."""
    roles = {"assistant", "user", "system", "developer"}
    found = {role: report.roles.get(role, 0) for role in roles}
    found |= {"tool_calls": report.tool_calls, "tool_results": report.tool_results, "msgs": report.messages}
    found |= {"chars": report.characters, "parallel": report.parallel, "images": report.images}
    known = {name: number for name in found if (number := total(expected, name)) is not None}
    assert {name: found[name] for name in known} == known


@pytest.mark.parametrize("key", keys(but=(*SHAPES, *WITHOUT, "bfcl-multi-turn")))
def test_counts_of_messages_calls_results_and_characters(key: str) -> None:
    """Messages by role, calls, results, parallel answers, images and characters are those known of the file."""
    episodes, report = imported(key)
    expected = EXPECTED[key]
    compare(report, expected[:1] if "sel" in expected[0] else expected)
    assert report.format is not None
    assert [item for item in check_corpus(episodes) if item.severity == "problem"] == []


@pytest.mark.parametrize("key", keys(but=("mooncake-trace", *WITHOUT)))
def test_nothing_is_lost_silently(key: str) -> None:
    """What was found, sent once and added equals what was kept and dropped, to the character."""
    _, report = imported(key)
    found = report.characters + report.tail_characters + report.added_characters
    assert found == report.kept.characters + report.dropped_characters


@pytest.mark.parametrize("key", keys("agentperf-local"))
def test_one_request_a_line_becomes_one_conversation(key: str) -> None:
    """Each request is a turn with its lengths, the passing status lines are kept aside, the last answer is unknown."""
    (episode,), report = imported(key)
    (expected,) = EXPECTED[key]
    assert (report.turns, report.unanswered) == (expected["requests"], 1)
    assert len(episode.tools) == expected["tools"]
    assert episode.meta["recorded_calls"] == expected["recorded_calls_total"]
    assert episode.meta["prompt_tokens"][-1] == expected["recorded_prompt_tokens_last"]
    assert (report.tails > 0) == (expected["non_append_only_steps"] > 0)
    assert episode.nodes[episode.turns[-1].prefix].message.role == expected["last_as_sent"]
    sent = sum(len(text_of(message.content)) for turn in episode.turns for message in episode.prefix(turn))
    assert sent == expected["sum_prompt_chars"]


@pytest.mark.parametrize("key", keys("mini-swe-agent"))
def test_run_ends_with_a_message_that_was_never_sent(key: str) -> None:
    """The submitted diff at the end of a run is dropped and counted; every answer is a turn."""
    _, report = imported(key)
    assert report.dropped == {"the message that ends the run": 1}
    assert report.turns == EXPECTED[key][0]["assistant"]
    assert report.repaired == {}


@pytest.mark.parametrize("key", keys("tau-bench", "swe-smith", "nebius", "openhands-v0", "sglang"))
def test_each_conversation_has_its_own_counts(key: str) -> None:
    """Files with several conversations give as many episodes, each with its turns and characters."""
    episodes, _ = imported(key)
    expected = EXPECTED[key]
    assert len(episodes) == len(expected)
    for episode, one in zip(episodes, expected, strict=True):
        answers = sum(node.message.role == "assistant" for node in episode.nodes)
        assert answers == one["assistant"]
        assert len(episode.turns) - answers in (0, 1) or len(episode.turns) == one["turns"]


@pytest.mark.parametrize("key", keys("claude-code"))
def test_resumed_sessions_are_one_conversation(key: str) -> None:
    """Answers written twice are one turn each, calls keep their results, images stay."""
    _, report = imported(key)
    expected = EXPECTED[key][0]
    assert (report.episodes, report.turns) == (1, expected["assistant"])
    assert report.dropped.get("a reply the program wrote, not a model", 0) == expected["synthetic"]


@pytest.mark.parametrize("key", keys("atif"))
def test_atif_conversations_and_turns(key: str) -> None:
    """Side chains are conversations of their own, and copied context is no turn."""
    episodes, report = imported(key)
    expected = EXPECTED[key][0]
    assert (len(episodes) > 1) == (expected["sidechain_steps"] > 0)
    answered = report.turns - report.unanswered
    assert answered == (1 if "answers" in key else expected["assistant"])
    assert len(episodes[0].tools) == expected["tool_definitions"] or episodes[0].meta["tools_inferred"]


@pytest.mark.parametrize("key", keys("otel-genai"))
def test_spans_are_counted_and_no_call_twice(key: str) -> None:
    """Model calls told by spans, by log records or by both are one turn each."""
    _, report = imported(key)
    (expected,) = EXPECTED[key]
    spans, traces, calls, content, tools, records = map(int, re.findall(r"\d+", report.notes[0]))
    assert (spans, traces, calls) == (expected["spans"], expected["traces"], expected["model_call_spans"])
    assert (content, records) == (expected["spans_with_message_attrs"], expected["log_records"])
    assert tools == expected["tool_spans"]
    assert report.turns == content or (content == 0 and report.turns == calls)


@pytest.mark.parametrize("key", keys("request-logs"))
def test_request_logs_are_merged(key: str) -> None:
    """A folder of requests is one conversation with the finish reasons and usage of each."""
    (episode,), report = imported(key)
    (expected,) = EXPECTED[key]
    assert report.turns == expected.get("requests", 1)
    assert episode.meta["finish_reasons"] == expected.get("finish_reasons", ["stop"])
    assert episode.meta["prompt_tokens"] == expected.get("usage_prompt", [10])
    assert len(episode.tools) == expected.get("tools", [0])[0]


@pytest.mark.parametrize("key", keys("weka-kv-trace", "tracelab-rounds"))
def test_shapes_of_sessions(key: str) -> None:
    """Traces without text become episodes with one turn a request, of the recorded lengths."""
    episodes, _ = imported(key)
    for episode, one in zip(episodes, EXPECTED[key], strict=True):
        assert len(episode.turns) == one.get("requests", one.get("rounds"))
        assert sum(turn.completion_tokens or 0 for turn in episode.turns) == one["out_total"]
        prompts = episode.meta["prompt_tokens"]
        assert prompts[-1] == one.get("in_last", prompts[-1])
        assert max(prompts) == one.get("in_max", max(prompts))
        assert prompts[0] == one.get("in_first", prompts[0])
        assert episode.meta["streamed" if "types" in one else "load_shape"] == one.get("types", {"s": True}).get("s", 0)
        assert episode.meta.get("recorded_calls") == one.get("tool_calls")
        sent = [sum(len(str(message.content)) for message in episode.prefix(turn)) for turn in episode.turns]
        assert sent == [4 * tokens for tokens in prompts]


@pytest.mark.parametrize("key", keys("mooncake-trace"))
def test_shapes_of_requests(key: str) -> None:
    """Each line is a turn of the recorded lengths, whichever conversation it was found to go on with."""
    run = Import([FOLDER / key])
    turns = longest = prompt = completion = 0
    for episode in run.episodes():
        turns += len(episode.turns)
        longest = max(longest, *episode.meta["prompt_tokens"])
        prompt += sum(episode.meta["prompt_tokens"])
        completion += sum(turn.completion_tokens or 0 for turn in episode.turns)
    (expected,) = EXPECTED[key]
    assert (turns, longest) == (expected["requests"], expected["in_max"])
    assert round(prompt / turns, 1) == expected["in_mean"]
    assert round(completion / turns, 1) == expected["out_mean"]


def test_scripts_of_user_turns() -> None:
    """BFCL's questions are scripts, each turn without an answer; its possible answers are counted."""
    run = Import([FOLDER / "bfcl-multi-turn"])
    episodes = list(run.episodes())
    questions, answers = run.reports
    (expected,) = EXPECTED["bfcl-multi-turn/BFCL_v4_multi_turn_base.json"]
    assert (len(episodes), questions.turns, questions.unanswered) == (expected["entries"], 734, expected["user_turns"])
    assert max(len(episode.turns) for episode in episodes) == expected["max_turns"]
    assert questions.roles.get("assistant", 0) == expected["assistant"]
    (known,) = EXPECTED["bfcl-multi-turn/possible_answer/BFCL_v4_multi_turn_base.json"]
    assert list(answers.dropped.values()) == [known["entries"]]
    assert answers.notes == (f"possible answers: {known['turns']} turns, {known['calls']} calls",)


@pytest.mark.parametrize("key", keys(*WITHOUT))
def test_files_without_a_conversation_are_refused(key: str) -> None:
    """A file in which there is no conversation is refused with the reason, not imported empty."""
    with pytest.raises(TranscriptError) as caught:
        list(Import([FOLDER / key]).episodes())
    assert re.search("ticks and no messages|without simulations|no conversation", caught.value.why)
    assert "none held any" not in caught.value.why

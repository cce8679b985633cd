"""Foreign transcripts: what each format's quirks become, and that bad files are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from soak.errors import TranscriptError
from soak.facts import Episode, text_of
from soak.importers import Imported, check_corpus, read_transcripts, write_corpus

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}


def call(id_: str | None, arguments: Any = "{}", name: str = "bash") -> dict[str, Any]:
    """Return one tool call as OpenAI writes it."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    """Return an answer with these calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(id_: str | None, content: Any = "r") -> dict[str, Any]:
    """Return a tool result."""
    return {"role": "tool", "tool_call_id": id_, "content": content}


def read(folder: Path, *lines: Any, name: str = "t.jsonl") -> Imported:
    """Import a file with these JSON lines."""
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_transcripts([folder / name])


def one(folder: Path, messages: list[Any], **more: Any) -> tuple[Episode, dict[str, int], dict[str, int]]:
    """Import one conversation; return its episode, what was repaired and what was dropped."""
    imported = read(folder, {"messages": messages, **more})
    (episode,) = imported.episodes
    problems = [item for item in check_corpus([episode]) if item.severity == "problem"]
    assert problems == []
    return episode, imported.reports[0].repaired, imported.reports[0].dropped


def refused(path: Path) -> TranscriptError:
    """Return the error of importing a file."""
    with pytest.raises(TranscriptError) as caught:
        read_transcripts([path])
    assert caught.value.exit_code == 4
    return caught.value


def test_fine_tuning_lines_become_episodes(tmp_path: Path) -> None:
    """One conversation a line: tools kept, ids by line, parallel calls counted."""
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    messages = [USER, calling(call("a"), call("b")), result("b"), result("a"), ANSWER]
    imported = read(tmp_path, {"messages": messages, "tools": tools}, {"messages": [USER, ANSWER]})
    first, second = imported.episodes
    report = imported.reports[0]
    assert (first.id, second.id) == ("t-001", "t-002")
    assert first.tools == tuple(tools)
    assert [(turn.prefix, turn.answer) for turn in first.turns] == [(0, 1), (3, 4)]
    assert (report.format, report.episodes, report.turns, report.parallel) == ("openai-chat", 2, 3, 1)
    assert (report.tool_calls, report.tool_results, report.repaired, report.dropped) == (2, 2, {}, {})
    assert first.meta["line"] == 1


def test_request_body_keeps_its_parameters_and_ends_on_a_turn_without_answer(tmp_path: Path) -> None:
    """Model and sampling go into `meta`; the request itself is the last turn; keys of other kinds are not kept."""
    body = {"model": "m", "temperature": 1.0, "max_tokens": 5, "messages": [USER], "user": "jane", "api_key": "s"}
    (episode,) = read(tmp_path, {"custom_id": "r/1", "method": "POST", "body": body}).episodes
    assert episode.id == "r-1"
    assert episode.meta["request"] == {"model": "m", "temperature": 1.0, "max_tokens": 5}
    assert [(turn.prefix, turn.answer) for turn in episode.turns] == [(0, None)]
    assert "jane" not in str(episode.meta)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("", ""),
        ([], ""),
        ([{"type": "text", "text": "x", "cache_control": {}}], [{"type": "text", "text": "x"}]),
        (["x"], [{"type": "text", "text": "x"}]),
        ({"a": 1}, '{"a": 1}'),
        (3, "3"),
    ],
)
def test_content_of_any_kind_is_kept_or_mended(given: Any, kept: Any, tmp_path: Path) -> None:
    """Null and empty content stay what they are; lists become text parts; other types become JSON text."""
    episode, _, _ = one(tmp_path, [USER, ANSWER, {"role": "user", "content": given}])
    assert episode.nodes[2].message.content == kept


def test_images_are_kept_and_counted_and_unknown_parts_dropped(tmp_path: Path) -> None:
    """An image part passes through; a part of an unknown kind is left out and counted."""
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    imported = read(tmp_path, {"messages": [{"role": "user", "content": [image, {"type": "video"}]}, ANSWER]})
    assert imported.episodes[0].nodes[0].message.content == [image]
    assert imported.reports[0].images == 1
    assert imported.reports[0].dropped == {"a content part of type 'video'": 1}


def test_developer_role_is_kept_and_others_are_named(tmp_path: Path) -> None:
    """`developer` stays; a role nobody knows is dropped and counted."""
    developer = {"role": "developer", "content": "d"}
    episode, _, dropped = one(tmp_path, [developer, USER, {"role": "critic", "content": "x"}, ANSWER])
    assert [node.message.role for node in episode.nodes] == ["developer", "user", "assistant"]
    assert dropped == {"a message with the role 'critic'": 1}


def test_reasoning_is_kept_apart_under_each_of_its_names(tmp_path: Path) -> None:
    """`reasoning_content`, `reasoning` and thinking parts end in `reasoning`, not in the content."""
    answers = [
        {**ANSWER, "reasoning_content": "why"},
        {**ANSWER, "reasoning": "why"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "a"}]},
    ]
    for answer in answers:
        episode, _, _ = one(tmp_path, [USER, answer])
        message = episode.nodes[1].message
        assert (message.reasoning, text_of(message.content)) == ("why", "a")


def test_arguments_are_verbatim_where_text_and_json_where_not(tmp_path: Path) -> None:
    """Broken JSON stays as the model sent it; an object becomes the JSON most clients write and is counted."""
    episode, repaired, _ = one(
        tmp_path, [USER, calling(call("a", "{oops"), call("b", {"k": [1, 2]})), result("a"), result("b"), ANSWER]
    )
    assert [item.arguments for item in episode.nodes[1].message.tool_calls] == ["{oops", '{"k": [1, 2]}']
    assert repaired == {"tool-call arguments given as an object": 1}


def test_legacy_function_call_becomes_a_tool_call(tmp_path: Path) -> None:
    """`function_call`, role `function` and `functions` become calls, results and tools, and are counted."""
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "r"},
        ANSWER,
    ]
    episode, repaired, _ = one(tmp_path, messages, functions=[{"name": "f", "parameters": {}}])
    answer = episode.nodes[1].message
    assert episode.nodes[2].message.tool_call_id == answer.tool_calls[0].id
    assert episode.tools == ({"type": "function", "function": {"name": "f", "parameters": {}}},)
    assert set(repaired) == {
        "legacy functions taken as tools",
        "a legacy function call",
        "role function taken as tool",
        "a result without a call id, joined to its call by place",
    }


def test_orphans_are_mended_and_counted(tmp_path: Path) -> None:
    """A result without a call becomes user text after the real results; a call passed over gets a placeholder."""
    messages = [
        USER,
        calling(call("a"), call("b"), call("c")),
        result("x", "stray"),
        result("b"),
        {"role": "user", "content": "go on"},
        result("c", "late"),
        ANSWER,
    ]
    episode, repaired, _ = one(tmp_path, messages)
    seen = [(node.message.role, node.message.tool_call_id) for node in episode.nodes]
    assert seen == [
        ("user", None),
        ("assistant", None),
        ("tool", "b"),
        ("tool", "a"),
        ("tool", "c"),
        ("user", None),
        ("user", None),
        ("user", None),
        ("assistant", None),
    ]
    assert repaired == {
        "a call without a result, answered by a placeholder": 2,
        "a result without a call, turned into user text": 2,
    }


def test_run_cut_between_results_ends_on_a_whole_prefix(tmp_path: Path) -> None:
    """A file that ends with one of two results gets the other as a placeholder, and a turn without answer."""
    episode, repaired, _ = one(tmp_path, [USER, calling(call("a"), call("b")), result("b")])
    assert [node.message.tool_call_id for node in episode.nodes[2:]] == ["b", "a"]
    assert episode.turns[-1].prefix == 3
    assert episode.turns[-1].answer is None
    assert repaired == {"a call without a result, answered by a placeholder": 1}


def test_last_answer_may_call_without_results(tmp_path: Path) -> None:
    """Calls of the last answer need no result: nothing is sent after them."""
    episode, repaired, _ = one(tmp_path, [USER, calling(call("a"))])
    assert len(episode.nodes) == 2
    assert repaired == {}


def test_ids_missing_or_repeated_within_an_answer_are_mended(tmp_path: Path) -> None:
    """Calls without ids get them, equal ids of one answer are told apart, results without ids join by place."""
    episode, repaired, _ = one(tmp_path, [USER, calling(call(None), call("b"), call("b")), result(None), result("b")])
    ids = [item.id for item in episode.nodes[1].message.tool_calls]
    assert len(set(ids)) == 3
    assert repaired["two calls of one answer with the same id"] == 1
    assert repaired["a tool call without an id"] == 1


def test_tools_are_inferred_where_a_file_has_none(tmp_path: Path) -> None:
    """Calls without schemas get permissive ones from the arguments seen, and the episode says so."""
    imported = read(
        tmp_path, {"messages": [USER, calling(call("a", '{"command": "ls", "n": 3}')), result("a"), ANSWER]}
    )
    episode = imported.episodes[0]
    properties = {"command": {"type": "string"}, "n": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties}
    assert episode.tools == ({"type": "function", "function": {"name": "bash", "parameters": parameters}},)
    assert episode.meta["tools_inferred"] is True
    assert "1 inferred" in imported.reports[0].notes[0]


def test_lists_of_messages_and_of_conversations_are_read(tmp_path: Path) -> None:
    """A bare list is one conversation; a list of conversations is several; `messages` may be a JSON string."""
    assert len(read(tmp_path, [USER, ANSWER]).episodes) == 1
    other = {"role": "user", "content": "other"}
    several = [[USER, ANSWER], {"messages": json.dumps([other, ANSWER, USER, ANSWER])}, {"other": 1}]
    imported = read(tmp_path, several)
    assert [len(item.turns) for item in imported.episodes] == [1, 2]
    assert imported.reports[0].dropped == {"an entry that is no conversation": 1}


def test_equal_ids_are_numbered_and_equal_conversations_dropped(tmp_path: Path) -> None:
    """Two conversations of one id are both kept under different ids; the same conversation twice is kept once."""
    other = {"role": "user", "content": "other"}
    lines = [{"id": "x", "messages": messages} for messages in ([USER, ANSWER], [other, ANSWER], [USER, ANSWER])]
    imported = read(tmp_path, *lines)
    assert [item.id for item in imported.episodes] == ["x", "x.2"]
    assert imported.reports[0].dropped == {"a conversation that was read before": 1}
    assert imported.reports[0].repaired == {"an id used before, numbered": 1}


def test_lone_surrogates_are_replaced_and_counted(tmp_path: Path) -> None:
    """Text with half a surrogate pair, as Python's json writes it, is read with U+FFFD in its place."""
    episode, repaired, _ = one(tmp_path, [{"role": "user", "content": "\ud83d!"}, ANSWER])
    assert episode.nodes[0].message.content == "\ufffd!"
    assert sum(repaired.values()) == 1


def test_pretty_printed_document_is_read_whole(tmp_path: Path) -> None:
    """A JSON document over many lines is one value, whatever its name ends in."""
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"messages": [USER, ANSWER]}, indent=2))
    assert read_transcripts([path]).episodes[0].id == "x"


def test_cut_off_last_line_is_dropped_and_counted(tmp_path: Path) -> None:
    """A writer that crashed in its last line loses that line only."""
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"messages": [USER, ANSWER]}) + '\n{"messages": [{"ro')
    imported = read_transcripts([path])
    assert len(imported.episodes) == 1
    assert imported.reports[0].dropped == {"a last line that was cut off": 1}


GOOD = json.dumps({"messages": [USER, ANSWER]}).encode() + b"\n"


@pytest.mark.parametrize(
    ("data", "place", "why"),
    [
        (b"", "t.jsonl", "it is empty"),
        (GOOD + b"{oops}\n" + GOOD, "t.jsonl:2", "is not valid JSON"),
        (b"{oops}\n" + GOOD, "t.jsonl:1", "is not valid JSON"),
        (GOOD + b'{"messages": "caf\xe9"}\n', "t.jsonl:2", "is not UTF-8"),
        (GOOD + b'{"messages": ' + b"[" * 10**6 + b"\n", "t.jsonl:2", "nested deeper than 64"),
        (GOOD + b'{"messages": ' + b"[" * 90 + b"]" * 90 + b"}\n", "t.jsonl:2", "nested deeper than 64"),
        (GOOD + b'{"messages": [' + b"9" * 400 + b"]}\n", "t.jsonl:2", "beyond 64 bits"),
        (b'{\n "messages": [\n', "t.jsonl", "is not valid JSON"),
        (b'"hello"\n', "t.jsonl", "its format is not recognised"),
        (b'{"block_size": 64}\n', "t.jsonl", "its format is not recognised"),
        (b'{"messages": [{"role": "system", "content": "s"}]}\n', "t.jsonl", "without a model call"),
        ("{}".encode("utf-16"), "t.jsonl", "is not UTF-8"),
    ],
)
def test_bad_file_is_named_with_its_line(data: bytes, place: str, why: str, tmp_path: Path) -> None:
    """Broken, deep, foreign or empty files end with the file, the line and the reason, never a traceback."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    error = refused(path)
    assert f"{tmp_path}/{place}" in error.what
    assert why in error.why


def test_line_of_fifty_megabytes_is_refused_in_transcripts(tmp_path: Path) -> None:
    """A line above 32 MiB is refused by its place."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(GOOD + b'{"messages": "' + b"x" * (50 << 20) + b'"}\n')
    error = refused(path)
    assert "t.jsonl:2" in error.what
    assert "longer than 32 MiB" in error.why


def test_missing_file_and_unknown_format_are_told(tmp_path: Path) -> None:
    """A file that is not there and a format that does not exist are errors of input."""
    assert "cannot be read" in refused(tmp_path / "none.jsonl").why
    with pytest.raises(TranscriptError, match="the format"):
        read_transcripts([tmp_path], format="excel")


def test_folder_is_searched_and_foreign_files_reported(tmp_path: Path) -> None:
    """In a folder, files of unknown formats are passed over and reported; the others are read, in order."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_bytes(GOOD)
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "notes.md").write_text("no")
    imported = read_transcripts([tmp_path])
    assert [Path(report.source).name for report in imported.reports] == ["a.json", "b.json"]
    assert imported.reports[0].dropped == {"a file whose format is not recognised": 1}
    assert len(imported.episodes) == 1


def test_empty_file_in_a_folder_is_reported(tmp_path: Path) -> None:
    """A session that was never written to is no reason to stop; named by itself it is."""
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    imported = read_transcripts([tmp_path])
    assert imported.reports[0].dropped == {"an empty file": 1}
    assert refused(tmp_path / "a.jsonl").why == "it is empty"


def test_format_given_is_used_without_asking(tmp_path: Path) -> None:
    """A named format is applied even where another one would be recognised."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"trajectory_format": "mini-swe-agent-1", "messages": [USER, ANSWER]}))
    assert read_transcripts([path]).reports[0].format == "mini-swe-agent"
    assert read_transcripts([path], format="openai-chat").reports[0].format == "openai-chat"


# -- mini-swe-agent ----------------------------------------------------------------------------------------------


def trajectory(messages: list[Any], **more: Any) -> dict[str, Any]:
    """Return a version-2 trajectory."""
    return {"trajectory_format": "mini-swe-agent-1.1", "instance_id": "repo__x-1", "messages": messages, **more}


def test_mini_swe_agent_native_calls_with_extras(tmp_path: Path) -> None:
    """Version 2: calls stay calls; usage, reasoning, finish reasons and waits are kept; the exit message is dropped."""
    response = {
        "choices": [{"finish_reason": "tool_calls", "message": {"reasoning_content": "why"}}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 7},
    }
    messages = [
        {"role": "system", "content": "s"},
        USER,
        {**calling(call("a")), "extra": {"response": response, "timestamp": 100.0, "actions": []}},
        {**result("a"), "extra": {"timestamp": 103.5, "returncode": 0}},
        {**calling(call("b")), "extra": {"timestamp": 110.0}},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
    ]
    info = {
        "exit_status": "Submitted",
        "mini_version": "2.4",
        "config": {"model": {"model_name": "m", "model_kwargs": {"temperature": 0.0, "api_key": "secret"}}},
    }
    imported = read(tmp_path, trajectory(messages, info=info), name="x.traj.json")
    (episode,) = imported.episodes
    assert episode.id == "repo__x-1"
    assert [node.message.role for node in episode.nodes] == ["system", "user", "assistant", "tool", "assistant"]
    assert [turn.completion_tokens for turn in episode.turns] == [7, None]
    assert [turn.wait_s for turn in episode.turns] == [None, 3.5]
    assert episode.nodes[2].message.reasoning == "why"
    assert episode.meta["finish_reasons"] == ["tool_calls", None]
    assert episode.meta["request"] == {"model": "m", "temperature": 0.0}
    assert "secret" not in str(episode.meta)
    assert imported.reports[0].dropped == {"the message that ends the run": 1}


def test_mini_swe_agent_text_actions_stay_text(tmp_path: Path) -> None:
    """No tool calls are invented from fences; an answer with two actions and its complaint are kept."""
    messages = [
        USER,
        {"role": "assistant", "content": "```mswea_bash_command\nls\n```\n```mswea_bash_command\npwd\n```"},
        {"role": "user", "content": "exactly one action, please"},
        {"role": "assistant", "content": "```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"},
        {"role": "user", "content": ""},
    ]
    imported = read(tmp_path, messages)
    (episode,) = imported.episodes
    assert imported.reports[0].format == "mini-swe-agent"
    assert [len(node.message.tool_calls) for node in episode.nodes] == [0, 0, 0, 0]
    assert len(episode.turns) == 2


def test_mini_swe_agent_run_that_goes_on_keeps_its_last_observation(tmp_path: Path) -> None:
    """Without a sign that the run ended, the last user message is an observation: a turn without answer."""
    messages = [USER, {"role": "assistant", "content": "```mswea_bash_command\nls\n```"}, USER]
    (episode,) = read(tmp_path, messages).episodes
    assert episode.turns[-1].answer is None


def test_mini_swe_agent_responses_items_become_messages(tmp_path: Path) -> None:
    """Items of the Responses API: texts, calls and summaries of one response are one answer, outputs its results."""
    response = {
        "object": "response",
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"},
        ],
    }
    output = {"type": "function_call_output", "call_id": "c", "output": "r"}
    (episode,) = read(tmp_path, trajectory([USER, response, output, ANSWER])).episodes
    answer = episode.nodes[1].message
    assert (answer.content, answer.reasoning, answer.tool_calls[0].id) == ("a", "why", "c")
    assert episode.nodes[2].message.tool_call_id == "c"


def test_imported_episodes_can_be_written(tmp_path: Path) -> None:
    """What an import gives is fit for a corpus."""
    imported = read(tmp_path, {"id": "x y:z", "messages": [USER, ANSWER]})
    assert write_corpus(tmp_path / "c", imported.episodes).turns == 1

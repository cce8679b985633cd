"""The bundle's own script: what it promises, and what a lying server can do to it."""

import argparse
import io
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import soak.probe
from soak.facts import (
    ArmCard,
    Build,
    Capabilities,
    CardEntry,
    Case,
    Change,
    EnvironmentCard,
    Judgement,
    Message,
    Observation,
    ToolCall,
    Trial,
    TurnClass,
    TurnKey,
)
from soak.probe import Form, bundle_files, promise_of
from soak.stats import prediction

SCRIPT = Path(soak.probe.__file__).parent / "bundle" / "reproduce.py"
NAMES = runpy.run_path(str(SCRIPT), run_name="reproduce")
FORM = Form(cases=(Case(name="talk", messages=(Message(role="user", content="go on"),)),))


def trial(class_: TurnClass, content: str = "", *calls: ToolCall, repeat: int = 0) -> Trial:
    """Return an answer that soak gave this class."""
    observation = Observation(
        key=TurnKey(episode="talk", turn=0, pass_=repeat, arm="b"), started_at=0.0, ending="complete", max_tokens=99,
        content=content, tool_calls=calls, finish_reason="stop",
    )  # fmt: skip
    return Trial(
        bench="b", case="sha256:0123456789", change=Change(), repeat=repeat, seed=1, body="", at=0.0,
        observation=observation, judgement=Judgement(class_=class_, reason=""),
    )  # fmt: skip


def read(stream: bytes) -> dict[str, Any]:
    """Return what the script makes of a stream of events."""
    answer: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None, "error": ""}
    NAMES["read"](io.BytesIO(stream), answer, {})
    return answer


@pytest.mark.parametrize(
    ("events", "turns", "further"), [(0, 20, 5), (9, 20, 5), (20, 20, 20), (2, 20, 400), (7, 7, 1)]
)
def test_other_numbers_of_rounds_have_their_own_interval(events: int, turns: int, further: int) -> None:
    """The script's prediction interval is the one that the bundle was made with, for any number of answers."""
    assert NAMES["predicted"](events, turns, further) == prediction(events, turns, further)


def test_what_is_expected_is_counted_as_the_script_counts() -> None:
    """Where the plain checker misses failures, the interval is that of what it sees, and both counts are told."""
    seen = [trial("garbage_loop", "again and again. " * 40, repeat=number) for number in range(8)]
    missed = [trial("garbage_loop", "all is well with the reader.", repeat=8 + number) for number in range(12)]
    promise = promise_of(FORM, [seen + missed], "garbage_loop", repeats=20, soak_version="1")
    assert (promise.failed, promise.script_failed, promise.checker_agrees) == (20, 8, 8)
    assert (promise.low, promise.high) == prediction(8, 20, 20)


def test_an_answer_with_calls_is_no_early_stop() -> None:
    """That an empty answer stopped early says nothing of an answer that holds only calls."""
    call = ToolCall(id="1", name="run", arguments="{}")
    answers = [trial("early_stop"), trial("early_stop", repeat=1), trial("ok", "", call, repeat=2)]
    promise = promise_of(FORM, [answers], "early_stop", repeats=3, soak_version="1")
    assert (promise.script_failed, promise.checker_agrees) == (2, 3)


def test_the_checker_is_not_praised_for_answers_it_learned_from() -> None:
    """Early stops whose texts never come twice are known to the script only because it saw them: none counts."""
    early = [
        trial("early_stop", f"I stop after {number} of the files that I read.", repeat=number) for number in range(9)
    ]
    fine = [trial("ok", "Done.", repeat=10 + number) for number in range(10)]
    promise = promise_of(FORM, [early + fine], "early_stop", repeats=20, soak_version="1")
    assert len(promise.early_texts) == 9
    assert (promise.script_failed, promise.checker_agrees, promise.checked) == (0, 10, 19)
    again = [trial("early_stop", "I stop.", repeat=number) for number in range(9)]
    promise = promise_of(FORM, [again + fine], "early_stop", repeats=20, soak_version="1")
    assert (promise.script_failed, promise.checker_agrees) == (9, 19)


HOSTILE = [
    "x | y | z", "\\| a", "a\\", "`` ` <script>alert(1)</script>", "[a](http://evil.example)", "![a](http://e.example)",
    "http://evil.example www.evil.example a@evil.example", "\n# heading\n", "\r\n\r\n---\n", "<!-- --> <b>",
    "\u202e\x00\x1b[31m",
    "&lt;b&gt;", "", "``|``", "\n| a | b |\n", "    code", "~~~", "$x$", "\u2028# h", "|" * 3000,
]  # fmt: skip


def shape(files: dict[str, bytes]) -> list[str]:
    """Return what the README is made of, without its words."""
    tokens = MarkdownIt("commonmark").enable("table").parse(files["README.md"].decode())
    return [part.type for token in tokens for part in (token, *(token.children or ())) if part.type != "softbreak"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_readme_quotes_what_comes_from_outside(text: str) -> None:
    """Whatever a server or build calls itself, the page has the headings, tables and links it has anyway: none more."""

    def files(told: str) -> dict[str, bytes]:
        entries = {name: CardEntry(value=told, source="given") for name in ("engine", told or "empty")}
        card = ArmCard(
            name="a",
            build=Build(engine=told, version=told, model=told, target="t"),
            given_target="t",
            environment=EnvironmentCard(entries=entries),
        )
        answers = [trial("garbage_loop", repeat=number) for number in range(4)]
        return bundle_files(FORM, [answers], "garbage_loop", card, Capabilities(model="m"), repeats=2, soak_version="1")

    assert shape(files(text)) == shape(files("plain"))
    assert "\x1b" not in files(text)["README.md"].decode()
    assert json.loads(files(text)["environment.json"])["arm"]["build"]["model"] == text


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * (9 * 1024 * 1024),
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":Infinity}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":{"a":1}}}]}\n\n',
        b'data: {"choices":[7]}\n\n',
        b"data: \xff\xfe\n\n",
    ],
)
def test_hostile_streams_are_errors(stream: bytes) -> None:
    """A line without end, nesting, numbers that are none and foreign shapes end in an error, never a traceback."""
    answer = read(stream)
    assert answer["error"]
    assert NAMES["class_of"](answer, {"short_chars": 0, "early_texts": []}) == "error"


def test_nested_arguments_are_an_error() -> None:
    """Arguments nested beyond reason are no valid call."""
    answer = {"content": "", "reasoning": "", "error": "", "finish_reason": "tool_calls"}
    answer_ = {**answer, "tool_calls": [{"name": "f", "arguments": "[" * 100_000 + " " + "x"}]}
    assert NAMES["class_of"](answer_, {"short_chars": 0, "early_texts": []}) in ("error", "garbage_loop")


def test_lone_surrogates_are_read_and_written() -> None:
    """Half a character of a broken tokenizer is no reason to stop."""
    answer = read(b'data: {"choices":[{"delta":{"content":"\\ud800"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n')
    assert json.loads(json.dumps(answer))["content"] == "\ud800"
    assert NAMES["class_of"](answer, {"short_chars": 0, "early_texts": []}) == "ok"


def test_errors_are_no_absence(capsys: pytest.CaptureFixture[str]) -> None:
    """Where every request was refused the exit code is 5, not that of a failure that is gone."""
    expected = {"failure": "garbage_loop", "low": 2, "high": 9, "repeats": 3, "checker_agrees": 3, "checked": 3}
    options = argparse.Namespace(repeats=3)
    assert NAMES["report"](options, expected, ["error"] * 3) == 5
    assert "neither the failure nor its absence" in capsys.readouterr().out
    assert NAMES["report"](options, expected, ["error", "ok", "ok"]) == 1
    assert NAMES["report"](options, expected, ["garbage_loop", "garbage_loop", "ok"]) == 0


EXPECTED = json.dumps(
    dict.fromkeys(NAMES["COUNTS"], 1) | {"failure": "garbage_loop", "early_texts": []}, sort_keys=True
)
BODIES = '{"body":{"messages":[]},"seeds":[7]}\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("expected.json", text) for text in ("{}", "[]", "x", "", "[" * 100_000, None)),
        ("expected.json", EXPECTED.replace('"low": 1', '"low": NaN')),
        ("expected.json", EXPECTED.replace('"repeats": 1', '"repeats": "1"')),
        ("expected.json", EXPECTED.replace('"early_texts": []', '"early_texts": 5')),
        ("expected.json", EXPECTED.replace('"failure": "garbage_loop"', '"failure": {}')),
        *(("bodies.jsonl", text) for text in ("", "5\n", "\0\0\n", BODIES + "\0\n", None)),
        ("bodies.jsonl", '{"body":5,"seeds":[]}\n'),
        ("bodies.jsonl", '{"body":{},"seeds":["x"]}\n'),
        ("bodies.jsonl", '{"body":{}}\n'),
        ("bodies.jsonl", "\udcff\n"),
    ],
)
def test_a_damaged_bundle_is_told(
    name: str, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the bundle that is missing or damaged is named in one line, with exit code 2 and nothing sent."""
    for file, content in {"expected.json": EXPECTED, "bodies.jsonl": BODIES, name: text}.items():
        if content is not None:
            (tmp_path / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    shutil.copy(SCRIPT, tmp_path)
    names = runpy.run_path(str(tmp_path / SCRIPT.name), run_name="reproduce")
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "http://127.0.0.1:9"])
    assert names["main"]() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{name} ")


def test_a_whole_bundle_is_read(tmp_path: Path) -> None:
    """The files of a bundle as it is made are no damage: the script gets as far as the server, which is not there."""
    trials = [trial("garbage_loop", "x" * 900, repeat=repeat) for repeat in range(4)]
    capabilities = Capabilities(model="m")
    files = bundle_files(FORM, [trials], "garbage_loop", None, capabilities, repeats=4, soak_version="0")
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-I", "-S", "reproduce.py", "http://127.0.0.1:9"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "does not answer" in done.stderr) == (5, True), done.stderr

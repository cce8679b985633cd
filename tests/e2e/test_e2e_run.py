"""`soak run` through the command line: classes against the server's ground truth, the summary's fields, exit codes."""

import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, environment, holds_bytes, processes_of_session, run_folder_in

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

QUICK = ("--set", "retries.wait_max_s=0.05", "--set", "sampling.max_tokens=1500")
FAULTS = {
    **dict.fromkeys(("loop", "loop_reasoning", "early_stop", "empty", "max_tokens", "broken_tool_call"), 0.06),
    **dict.fromkeys(("reset_middle", "error_event", "no_finish", "malformed", "http_500", "reset_first"), 0.03),
    **dict.fromkeys(("http_429_once", "http_503_once", "reset_first_once", "reset_after_finish", "recut"), 0.02),
}
RATES = ",".join(f"{name}={share}" for name, share in FAULTS.items())
SUMMARY = {"schema", "run", "scenario", "verdict", "reasons", "plan", "arms"}
PLAN = {"episodes", "turns", "passes", "seed", "hash"}
BUILD = {"engine", "version", "model", "speculative", "target", "settings"}
TURNS = {
    "planned",
    "finished",
    "ok",
    "garbage_loop",
    "early_stop",
    "max_tokens",
    "error",
    "skipped",
    "indeterminate",
}
ARM = {
    "build",
    "valid",
    "invalid_reasons",
    "turns",
    "wall_s",
    "busy_s",
    "tokens",
    "ttft_ms",
    "tpot_ms",
    "e2e_ms",
    "speculation",
    "prefix_cache",
}
CLASSES = {"ok", "garbage_loop", "early_stop", "max_tokens", "error"}


def records_of(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the run's final records by the seed of their request."""
    with closing(sqlite3.connect(folder / "history.sqlite")) as history:
        starts = [json.loads(body) for (body,) in history.execute("SELECT body FROM starts")]
        ends = [
            json.loads(body) for (body,) in history.execute("SELECT body FROM ends WHERE outcome != 'indeterminate'")
        ]
    seeds = {json.dumps(start["key"]): start["seed"] for start in starts}
    return {seeds[json.dumps(end["key"])]: end for end in ends if json.dumps(end["key"]) in seeds}


@pytest.mark.parametrize("client", ["wire", "sdk"])
def test_classes_equal_the_ground_truth_turn_by_turn(soak: Soak, fake: Fakes, tmp_path: Path, client: str) -> None:
    """With 8 in flight each of 60 turns gets the class that the server's ground truth names for that very turn."""
    server = fake("--seed", 5, "--first-chunk-s", 0.02, "--rates", RATES)
    done = soak("run", "--scenario", "swe_agent", "--target", server.url, "--turns", 60, "--in-flight", 8, "--json",
                "--set", f"client={client}", *QUICK)  # fmt: skip
    records, truth = records_of(run_folder_in(tmp_path)), server.truth()
    assert len(records) == 60
    assert records.keys() <= truth.keys()
    wrong = {
        (str(record["key"]), truth[seed]["fault"]): (record["judgement"]["class"], truth[seed]["expected"])
        for seed, record in records.items()
        if record["judgement"]["class"] != truth[seed]["expected"]
    }
    assert not wrong
    endings = {seed: record["observation"]["ending"] for seed, record in records.items()}
    assert all(endings[seed] in truth[seed]["endings"] for seed in records)
    turns = done.json["arms"]["candidate"]["turns"]
    for name in CLASSES:
        assert turns[name] == sum(truth[seed]["expected"] == name for seed in records)
    assert len({truth[seed]["expected"] for seed in records}) == 5, "every class must have occurred"
    assert done.code == {"pass": 0, "fail": 1, "unknown": 3}[done.json["verdict"]]


def test_summary_has_every_field_of_the_contract(soak: Soak, fake: Fakes) -> None:
    """`run --json` prints one `soak.summary/1` with all fields, measured ones filled, and all human text on stderr."""
    server = fake("--rates", "none", "--gap-s", 0.001)
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--json", "--run", "here")
    summary = done.json
    assert summary["schema"] == "soak.summary/1"
    assert summary.keys() >= SUMMARY
    assert summary["plan"].keys() >= PLAN
    assert (summary["run"], summary["scenario"], summary["state"]) == ("here", "smoke", "complete")
    assert summary["plan"]["turns"] == 11
    (arm,) = summary["arms"].values()
    assert arm.keys() >= ARM
    assert arm["build"].keys() >= BUILD
    assert arm["turns"].keys() >= TURNS
    assert arm["busy_s"].keys() == CLASSES
    assert {"prompt", "cached", "completion", "usable"} <= arm["tokens"].keys()
    assert all(arm[name].keys() == {"p50", "p95", "p99"} for name in ("ttft_ms", "tpot_ms", "e2e_ms"))
    assert all(value > 0 for name in ("ttft_ms", "tpot_ms", "e2e_ms") for value in arm[name].values())
    assert arm["speculation"]["acceptance_length"] > 1
    assert 0 < arm["speculation"]["acceptance_rate"] <= 1
    assert len(arm["speculation"]["per_position"]) == 3
    assert arm["prefix_cache"]["hit_rate"] > 0
    assert (arm["build"]["engine"], arm["build"]["model"]) == ("vllm", "fake-model")
    turns = arm["turns"]
    assert turns["planned"] == turns["finished"] + turns["skipped"] + turns["indeterminate"] + turns["not_reached"]
    assert "run folder: here" in done.err
    assert "soak show here" in done.err


def test_exit_0_where_every_threshold_holds(soak: Soak, steady: Fake) -> None:
    """A faultless server passes: exit code 0."""
    done = soak("run", "--scenario", "smoke", "--target", steady.url, "--json")
    assert (done.code, done.json["verdict"]) == (0, "pass")


def test_exit_1_where_a_threshold_is_broken(soak: Soak, fake: Fakes) -> None:
    """A server with errors in every third turn fails: exit code 1, and the reason names the threshold."""
    server = fake("--rates", "error_event=0.4")
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--json")
    assert (done.code, done.json["verdict"]) == (1, "fail")
    assert any("rate.error <= 10%" in reason for reason in done.json["reasons"])


def test_exit_3_where_there_is_too_little_evidence(soak: Soak, steady: Fake) -> None:
    """Fewer finished turns than the scenario asks for are no pass: exit code 3."""
    done = soak("run", "--scenario", "smoke", "--target", steady.url, "--turns", 4, "--json")
    assert (done.code, done.json["verdict"]) == (3, "unknown")
    assert any("4 finished turns" in reason for reason in done.json["reasons"])


def test_exit_6_where_a_threshold_stops_the_run(soak: Soak, fake: Fakes) -> None:
    """A stop_if that holds ends the run early: exit code 6, state stopped, the rest not reached."""
    server = fake("--rates", "no_finish=1")
    stop = '["turns.error >= 3"]'
    done = soak("run", "--scenario", "swe_agent", "--target", server.url, "--turns", 40, "--in-flight", 2, "--json",
                "--set", f"thresholds.stop_if={stop}")  # fmt: skip
    assert (done.code, done.json["state"], done.json["verdict"]) == (6, "stopped", "fail")
    turns = done.json["arms"]["candidate"]["turns"]
    assert 3 <= turns["error"] <= 5
    assert turns["not_reached"] > 30
    assert "turns.error >= 3" in done.err


def test_api_key_reaches_the_server_and_nothing_else(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """SOAK_API_KEY is sent to the server and occurs in no byte of the run folder, stdout or stderr."""
    key = "sk-soak-e2e-7f3c9a1d5b8e2f60"
    server = fake("--rates", "http_500=0.2,error_event=0.2", "--key", key)
    env = {"SOAK_API_KEY": key}
    refused = soak("run", "--scenario", "smoke", "--target", server.url)
    assert refused.code == 5
    assert any("SOAK_API_KEY" in line for line in refused.error_lines())
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--json", "--log-json", *QUICK, env=env)
    assert done.json["arms"]["candidate"]["turns"]["finished"] == 11
    resumed = soak("resume", run_folder_in(tmp_path), env=env)
    assert len(server.truth()) == 11, "the server asks for the key, so it has seen it"
    assert not holds_bytes(run_folder_in(tmp_path), key.encode())
    for command in (done, resumed):
        assert key not in command.out
        assert key not in command.err


@pytest.mark.parametrize("feature", ["speculation", "prefix-cache"])
def test_a_feature_that_is_on_but_idle_makes_the_arm_invalid(soak: Soak, fake: Fakes, feature: str) -> None:
    """An engine whose draft counter or prefix hits stand still tested nothing: invalid, unknown, exit code 3."""
    server = fake("--rates", "none", f"--{feature}", "stuck")
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--json")
    (arm,) = done.json["arms"].values()
    assert (done.code, done.json["verdict"], arm["valid"]) == (3, "unknown", False)
    word = feature.replace("-", " ")
    assert any(word in reason for reason in arm["invalid_reasons"])
    assert any(word in reason and "invalid" in reason for reason in done.json["reasons"])


def test_a_time_budget_loops_the_corpus_and_ends_by_itself(soak: Soak, fake: Fakes) -> None:
    """`--minutes` goes through the corpus as often as time allows, then drains; planned is what was reached."""
    server = fake("--rates", "none", "--first-chunk-s", 0.02)
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--minutes", 0.03, "--json")
    turns = done.json["arms"]["candidate"]["turns"]
    assert done.json["plan"]["passes"] > 1
    assert turns["planned"] == turns["finished"] > 11
    assert turns["not_reached"] == turns["indeterminate"] == 0
    assert done.json["state"] == "complete"


def test_a_model_without_tool_template_gets_plain_text(soak: Soak, fake: Fakes) -> None:
    """`tools: auto` falls back to text mode for a server that refuses tools, and the run goes through."""
    server = fake("--rates", "none", "--no-native-tools", "--no-token-ids")
    done = soak("run", "--scenario", "smoke", "--target", server.url, "--json")
    assert done.json["arms"]["candidate"]["turns"]["ok"] == 11


def test_no_process_is_left_behind(soak: Soak, steady: Fake) -> None:
    """After a run nothing of its session is alive."""
    done = soak("run", "--scenario", "smoke", "--target", steady.url)
    assert not processes_of_session(done.pid)


def test_a_terminal_gets_a_live_view(fake: Fakes, tmp_path: Path) -> None:
    """With stderr on a terminal a panel is drawn there, stdout still holds the one JSON document, and all is logged."""
    server = fake("--rates", "early_stop=0.5", "--first-chunk-s", 0.1)
    ours, theirs = pty.openpty()
    order = ["run", "--scenario", "smoke", "--target", server.url, "--json", "--run", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "soak.cli", *order],
        cwd=tmp_path,
        env=environment(TERM="xterm-256color"),
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    screen = all_of_terminal(ours)
    assert process.stdout is not None
    with process.stdout:
        summary = json.load(process.stdout)
    assert process.wait(30) in (0, 1)
    assert summary["arms"]["candidate"]["turns"]["finished"] == 11
    assert "Traceback" not in screen
    assert "garbage_loop" in screen
    assert "%" in screen
    assert "left" in screen
    logged = [json.loads(line) for line in (tmp_path / "run" / "soak.log").read_text().splitlines()]
    assert sum(line["event"] == "turn" for line in logged) == summary["arms"]["candidate"]["turns"]["early_stop"]


def all_of_terminal(number: int) -> str:
    """Return all that is written to a terminal until its other side is closed."""
    parts = []
    with os.fdopen(number, "rb", buffering=0) as terminal, suppress(OSError):  # Linux's way to say that it is closed
        while part := terminal.read(65536):
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")

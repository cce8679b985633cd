"""
Why turns broke, told on a real vLLM: with faults planted in it by a plugin, with none, and with a model that loops.

Minutes a test on two cores, for each starts several engines one after the other: with `ops/check --releases` only.
"""

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from typing import Any

import pytest
from rigs.cli import TESTS, Command, environment
from rigs.planting import PLANTED, planted_engine, planted_file

from soak.launch import LOCAL, prepare
from soak.store import RunFolder

pytestmark = [
    pytest.mark.engine,
    pytest.mark.releases,  # minutes each: not part of every check
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not PLANTED.is_dir(), reason="the plugin that plants faults is not here (tests/planted)"),
]

NEAR_TIE = TESTS / "fixtures" / "near_tie.json"
"""A turn whose greedy answer the small model ends at a near-tie; found by `python -m ops.bench.near_ties`."""
OWN_LOOP = TESTS / "fixtures" / "own_loop.json"
"""A turn whose greedy answer is a loop of the small model's own, met in the same search."""
ENDS_S = 3000
Begin = Callable[..., Command]

NOTES = " ".join(
    f"On day {day} the relay {'K1' if day % 2 else 'K2'} was read {day % 5 + 2} times and the lamp stayed off."
    for day in range(1, 13)
)
STORY = f"{NOTES}\n\nWrite a short story about the person who took these readings."


def turn(folder: Path, words: str, name: str = "turn.json", **sampling: Any) -> str:
    """Write a turn that somebody reported as a garbage loop; return the file's name."""
    case = {
        "schema": "soak.case/1",
        "name": name.removesuffix(".json"),
        "messages": [{"role": "user", "content": words}],
        "tool_mode": "text",
        "seed": 5,
        "sampling": {"temperature": 1.0, "top_p": 0.95, "max_tokens": 160} | sampling,
        "judgement": {"class": "garbage_loop", "reason": "reported"},
    }
    (folder / name).write_text(json.dumps(case))
    return name


def probed(begin: Begin, *args: object) -> dict[str, Any]:
    """Return what `soak probe` says, with what led to it shown where the test fails."""
    prepare(LOCAL)
    command = begin("probe", *args, "--json").wait(ENDS_S)
    assert command.code in (0, 1, 3), command.err
    found: dict[str, Any] = command.json
    print(json.dumps(found, indent=1))  # noqa: T201 - shown by pytest if it fails
    return found


def shortest(path: Path, class_: str) -> str:
    """Return the key of the shortest answer of a class in a run."""
    with RunFolder.open(path).history() as history:
        records = [one for one in history.final().values() if one.judgement and one.judgement.class_ == class_]
    return str(min(records, key=lambda one: one.observation.output_tokens if one.observation else 0).key)


def rates(found: dict[str, Any]) -> dict[str, float]:
    """Return the share of loops in each condition, by server and change."""
    return {
        f"{one['server']}; {one['change']}": one["classes"].get("garbage_loop", 0) / one["asked"]
        for one in found["outcomes"]
    }


def test_a_stop_at_a_near_tie_is_numerics(begin: Begin) -> None:
    """Where the end and another token lie less than 0.05 nats apart, the healthy build's stop is a near-tie."""
    found = probed(begin, "--turn-file", NEAR_TIE, "--target", "local", "--repeats", 4)
    assert (found["failure"], found["cause"]) == ("early_stop", "near-tie (numerics)"), found["text"]
    last = found["laws"][-1]
    assert last["best_logprob"] - last["second_logprob"] < 0.05


def test_an_end_on_a_wide_gap_is_the_engines(begin: Begin, tmp_path: Path) -> None:
    """An end planted where the likeliest tokens lie 2 nats apart or more is no near-tie: it goes with speculation."""
    prepare(LOCAL)
    target = planted_file(tmp_path, "wrong_eos:0.1;only_spec;seed=3")
    command = begin("run", "--scenario", "smoke", "--target", target, "--turns", 6, "--run", "r",
                    "--set", "sampling.temperature=0", "--set", "sampling.max_tokens=64")  # fmt: skip
    command.wait(1200)
    found = probed(begin, "r", shortest(tmp_path / "r", "early_stop"), "--repeats", 4)
    assert (found["failure"], found["cause"]) == ("early_stop", "engine: speculation"), found["text"]
    last = found["laws"][-1]
    assert last["best_logprob"] - last.get("logprob", last["floor"]) >= 2
    assert found["identical"] == 4, "the same context ends at the same place"


def test_a_loop_planted_in_speculation(begin: Begin, tmp_path: Path) -> None:
    """Loops that come only while the engine speculates are named so."""
    target = planted_file(tmp_path, "garbage_loop:0.8;only_spec;seed=3")
    found = probed(begin, "--turn-file", turn(tmp_path, STORY), "--target", target)
    assert found["cause"] == "engine: speculation", found["text"]
    assert rates(found)["no speculation; salted"] <= 0.1


def test_a_loop_planted_in_cache_hits(begin: Begin, tmp_path: Path) -> None:
    """Loops that come only in requests which met the prefix cache are named so, though speculation is on."""
    target = planted_file(tmp_path, "garbage_loop:0.8;only_cache;seed=3")
    found = probed(begin, "--turn-file", turn(tmp_path, STORY), "--target", target)
    assert found["cause"] == "engine: cache", found["text"]
    assert rates(found)["no speculation; as asked"] >= 0.4


def test_a_loop_of_the_models_own(begin: Begin) -> None:
    """With nothing planted a loop that the small model falls into by itself is its own, on every server alike."""
    found = probed(begin, "--turn-file", OWN_LOOP, "--target", "local", "--repeats", 4)
    assert (found["failure"], found["cause"]) == ("garbage_loop", "model"), found["text"]
    assert rates(found)["no speculation; salted"] == 1


def test_where_greedy_answers_part(begin: Begin, tmp_path: Path) -> None:
    """Each server is held against itself first; a healthy build parts at near-ties, wrong tokens at wide gaps."""
    turns = ("--turn-file", turn(tmp_path, STORY, max_tokens=64), "--turn-file", NEAR_TIE)
    healthy = probed(begin, *turns, "--diverge", "--target", "local", "--into", "healthy")
    assert healthy["result"] != "deviates", healthy["text"]
    assert all(min(one["own"]) >= 1 and one["apart"]["compared"] > 0 for one in healthy["partings"])
    target = planted_file(tmp_path, "wrong_token:0.05;only_spec;seed=3")
    faulty = probed(begin, *turns, "--diverge", "--target", target, "--into", "faulty")
    assert faulty["result"] == "deviates", faulty["text"]
    parted = next(one["apart"] for one in faulty["partings"] if one.get("near_tie") is False)
    assert parted["diverges_at"] >= 0
    assert len(set(parted["took"])) == 2
    assert max(abs(gap) for gap in parted["gaps"] if gap is not None) > 1


def reproduced(bundle: Path, url: str) -> tuple[int, str]:
    """Run the bundle's script in an isolated interpreter without site packages; return its exit code and output."""
    command = (sys.executable, "-I", "-S", "reproduce.py", url)
    done = run(command, cwd=bundle, env=environment(), stdout=PIPE, stderr=STDOUT, timeout=1200, check=False)
    return done.returncode, done.stdout.decode()


def test_a_bundle_shows_the_planted_loop_and_nothing_without_it(begin: Begin, tmp_path: Path) -> None:
    """Made on the engine with the loop, it reproduces there without soak, and not on the engine without speculation."""
    fault = "garbage_loop:0.8;only_spec;seed=3"
    for name in ("faulty", "plain"):
        (tmp_path / name).mkdir()
    with planted_engine(tmp_path / "faulty", lambda step: None) as engine:
        engine.plant(fault)
        command = begin("repro", "--turn-file", turn(tmp_path, STORY), "--target", engine.url, "-o", "loop.zip",
                        "--repeats", 10, "--budget", 30, "--json").wait(ENDS_S)  # fmt: skip
        assert command.code == 0, command.err
        assert command.json["promise"]["failure"] == "garbage_loop"
        with zipfile.ZipFile(tmp_path / "loop.zip") as bundle:
            bundle.extractall(tmp_path)
        code, out = reproduced(tmp_path / "loop", engine.url)
        assert code == 0, out
    with planted_engine(tmp_path / "plain", lambda step: None, speculative=None) as engine:
        engine.plant(fault)
        code, out = reproduced(tmp_path / "loop", engine.url)
    assert code == 1, out

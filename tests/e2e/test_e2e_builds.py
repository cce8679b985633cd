"""Builds through the command line: started, told apart, one after the other, killed, restarted."""

import os
import re
import shlex
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.builds import engines
from rigs.builds import scripted_build as build
from rigs.cli import Command, ends_of, processes_holding, wait_until

from soak.store import RunFolder

Soak = Callable[..., Command]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of builds that is not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "soak-cache"))


def test_two_builds_together_are_told_apart_by_their_cards(soak: Soak, tmp_path: Path) -> None:
    """Both servers are started, sent every turn, and ended; compare opens with the one setting that differs."""
    one = build(tmp_path, "one")
    other = build(tmp_path, "other", "--context", "65536")
    done = soak("run", "--scenario", "smoke", "--arm", f"baseline={one}", "--arm", f"candidate={other}", "--run", "r",
                "--json")  # fmt: skip
    assert done.code == 0, done.err
    arms = done.json["arms"]
    assert {arm["turns"]["finished"] for arm in arms.values()} == {11}
    assert arms["candidate"]["environment"]["entries"]["context_tokens"] == {"value": "65536", "source": "engine"}
    assert not any(processes_holding(tmp_path / "r" / f"engine-{name}.log") for name in arms)
    text = soak("compare", "r").out
    assert text.index("context tokens") < text.index("paired turns")
    assert "65536" in text
    manifest = RunFolder.open(tmp_path / "r").manifest
    assert manifest.arm_order == "together"
    assert [card.recipe.name for card in manifest.arms if card.recipe] == ["one", "other"]


def test_aba_has_one_server_at_a_time_and_tells_drift(soak: Soak, tmp_path: Path) -> None:
    """Each arm gets every turn from a server of its own time; compare sets the arms side by side and tells the rest."""
    one, other = build(tmp_path, "one"), build(tmp_path, "other", "--context", "65536")
    done = soak("run", "--scenario", "smoke", "--arm", f"baseline={one}", "--arm", f"candidate={other}", "--run", "r",
                "--arm-order", "ABA", "--json")  # fmt: skip
    assert {name: arm["turns"]["finished"] for name, arm in done.json["arms"].items()} == {
        "baseline": 11,
        "candidate": 11,
        "baseline_again": 11,
    }
    assert done.json["state"] == "complete"
    with RunFolder.open(tmp_path / "r").history() as history:
        order = [started.key.arm for started in history.starts()]
    assert order == sorted(order, key=["baseline", "candidate", "baseline_again"].index)
    found = soak("compare", "r", "--json").json
    assert found["pairs"] == 11
    assert sum("once more after the candidate (ABA)" in text for text in found["warnings"] + found["notes"]) == 1


def test_kill_of_soak_ends_both_servers_and_resume_goes_on(begin: Soak, soak: Soak, tmp_path: Path) -> None:
    """SIGKILL in mid-run leaves neither server; resume starts them again from the manifest, the files being gone."""
    names = [build(tmp_path, name, "--gap-s", "0.015") for name in ("one", "other")]
    command = begin("run", "--scenario", "smoke", "--run", "r", "--turns", 5,
                    "--arm", f"a={names[0]}", "--arm", f"b={names[1]}").said("run begins")  # fmt: skip
    logs = [tmp_path / "r" / f"engine-{arm}.log" for arm in "ab"]
    assert all(engines(log) for log in logs)
    command.signal(signal.SIGKILL)
    command.wait()
    for log in logs:
        wait_until(lambda log=log: not processes_holding(log), what="the end of the servers")
    for name in names:
        (tmp_path / name).unlink()
    resumed = soak("resume", "r", "--json")
    assert resumed.json["state"] == "complete", resumed.err
    done = ends_of(tmp_path / "r")["finished"]
    assert len(done) == len(set(done)) == 10


def test_after_a_kill_doctor_finds_no_server_left(begin: Soak, soak: Soak, tmp_path: Path) -> None:
    """SIGKILL while two servers run, one of which heeds no SIGTERM and has a child: none outlives a `soak doctor`."""
    server = shlex.join([sys.executable, "-m", "fakes", "--rates", "none", "--port"])
    shell = f"trap '' TERM; sleep 600 & {server} {{port}}"
    names = [build(tmp_path, "one"), build(tmp_path, "stubborn", command=["bash", "-c", shell])]
    command = begin("run", "--scenario", "smoke", "--run", "r", "--set", "think_time={mode: fixed, fixed_s: 5}",
                    "--arm", f"a={names[0]}", "--arm", f"b={names[1]}").said("run begins")  # fmt: skip
    logs = [tmp_path / "r" / f"engine-{arm}.log" for arm in "ab"]
    assert [len(set(processes_holding(log))) for log in logs] == [2, 4], "a guardian and its server; shell and child"
    command.signal(signal.SIGKILL)
    command.wait()
    assert "PROBLEM" not in soak("doctor").out
    for log in logs:
        wait_until(lambda log=log: not processes_holding(log), what="the end of the servers")


def test_a_sequential_run_is_resumed_at_the_arm_it_stopped_in(begin: Soak, soak: Soak, tmp_path: Path) -> None:
    """Killed while the second arm runs, it goes on with that arm alone; the first is not started again."""
    one, other = build(tmp_path, "one"), build(tmp_path, "other", "--gap-s", "0.015")
    command = begin("run", "--scenario", "smoke", "--run", "r", "--arm-order", "sequential",
                    "--arm", f"a={one}", "--arm", f"b={other}").said("arms_done")  # fmt: skip
    wait_until(lambda: engines(tmp_path / "r" / "engine-b.log"), what="the second server")
    command.signal(signal.SIGKILL)
    command.wait()
    wait_until(lambda: not processes_holding(tmp_path / "r" / "engine-b.log"), what="the end of the server")
    before = (tmp_path / "r" / "engine-a.log").read_bytes()
    resumed = soak("resume", "r", "--json")
    assert {name: arm["turns"]["finished"] for name, arm in resumed.json["arms"].items()} == {"a": 11, "b": 11}
    assert (tmp_path / "r" / "engine-a.log").read_bytes() == before


def kill_engine(log: Path) -> None:
    (pid,) = wait_until(lambda: engines(log), what="the server")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in engines(log), what="its end")


def test_a_server_that_dies_is_started_again_as_often_as_its_build_allows(begin: Soak, tmp_path: Path) -> None:
    """Each death is an event with its last log lines; after the last restart the run ends as engine_gone, code 5."""
    name = build(tmp_path, "frail", "--gap-s", "0.015", restarts=1)
    command = begin("run", "--scenario", "smoke", "--passes", 5, "--target", name, "--run", "r", "--json")
    log = tmp_path / "r" / "engine-candidate.log"
    command.said("run begins")
    kill_engine(log)
    command.said("engine_restarted")
    kill_engine(log)
    command.said("engine_given_up").wait()
    assert (command.code, command.json["state"], command.json["verdict"]) == (5, "engine_gone", "unknown")
    assert any("the engine died 2 times" in reason for reason in command.json["reasons"])
    with RunFolder.open(tmp_path / "r").history() as history:
        deaths = [event for event in history.events() if event.kind == "engine_died"]
    assert [(death.arm, death.data["code"]) for death in deaths] == [("candidate", -signal.SIGKILL)] * 2
    assert all(any("http://127.0.0.1" in line for line in death.data["log_tail"]) for death in deaths)


def test_the_proxy_starts_any_build_and_restarts_it(begin: Soak, tmp_path: Path) -> None:
    """`soak proxy --target FILE` stands before a server of its own; what it is and when it died are in the run."""
    name = build(tmp_path, "one", restarts=1)
    command = begin("proxy", "--target", name, "--port", 0, "--run", "r", "--json").said(" passes on to ")
    (url,) = set(re.findall(r"(http://127\.0\.0\.1:\d+) passes on", command.err))
    log = tmp_path / "r" / "engine-candidate.log"
    kill_engine(log)
    command.said("engine_restarted")
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
        assert b"fake-model" in answer.read()
    kill_engine(log)
    command.said("engine_given_up").wait()
    assert (command.code, command.json["state"], command.json["verdict"]) == (5, "engine_gone", "unknown")
    (card,) = RunFolder.open(tmp_path / "r").manifest.arms
    assert card.recipe is not None and card.recipe.name == "one"
    assert card.environment is not None and card.environment.entries["engine"].value == "vllm"


def test_serve_starts_any_build_and_restarts_it(begin: Soak, tmp_path: Path) -> None:
    """`soak serve FILE` prints the URL, starts a server that died again, and ends it on Ctrl-C."""
    name = build(tmp_path, "one", restarts=1)
    command = begin("serve", name, "--log", "engine.log").said("Ctrl-C stops it")
    log = tmp_path / "engine.log"
    kill_engine(log)
    command.said("it serves again")
    kill_engine(log)
    command.said("the server ended by itself").wait()
    assert command.code == 5

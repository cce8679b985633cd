"""Live replay through the command line: what a run says, what it may be compared with, how it goes on when killed."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import ROOT, Command, Fake, ends_of, starts_of, wait_until

from soak.store import RunFolder

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

FOLLOW = ("--follow", ROOT / "transcripts" / "smoke")
LIVE = ("--set", "replay=live", "--set", "retries.wait_max_s=0.05", "--json")


def order(server: Fake, run: str, *more: object) -> tuple[object, ...]:
    """Return the command line of a live run of the smoke scenario."""
    return ("run", "--scenario", "smoke", "--target", server.url, "--passes", 2, "--run", run, *LIVE, *more)


def conversations(folder: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the ends of the conversations in a run folder; none may have ended twice."""
    with RunFolder.open(folder).history() as history:
        ends = list(history.conversation_ends())
    assert len({end.key for end in ends}) == len(ends)
    return {tuple(end.key): (end.reason, end.turns, end.last, end.counts) for end in ends}


def test_a_live_run_says_how_its_conversations_went(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Ends by reason, turns per task and matched calls stand in the summary, and `check` comes to the same."""
    command = soak(*order(fake(*FOLLOW), "run", "--set", "thresholds.min_turns=10"))
    assert command.code == 0, command.err
    (arm,) = command.json["arms"].values()
    found = arm["conversations"]
    assert (found["begun"], found["ended"], found["loops"], found["loop_rate"]) == (6, 6, 0, 0.0)
    assert found["reasons"] == {"answered": 2, "record_over": 4}
    assert (found["turns"]["p50"], found["turns"]["max"]) == (4.0, 4.0)
    assert found["counts"] == {"exact": 34}
    assert arm["turns"]["planned"] == arm["turns"]["finished"] == command.json["plan"]["turns"] == 22
    assert "conversation loops: 0 of 6 tasks" in " ".join(command.json["reasons"])
    checked = soak("check", "run", "--json")
    assert checked.json["arms"] == command.json["arms"]
    assert RunFolder.open(tmp_path / "run").manifest.scenario["replay"] == "live"


def test_live_and_recorded_counts_are_never_compared(soak: Soak, fake: Fakes) -> None:
    """Two modes of replay make the comparison invalid: unknown, exit code 3, said before any number."""
    server = fake(*FOLLOW)
    soak(*order(server, "live"))
    soak("run", "--scenario", "smoke", "--target", server.url, "--passes", 2, "--run", "recorded", "--json")
    command = soak("compare", "recorded", "live", "--json")
    assert command.code == 3
    assert command.json["verdict"] == "unknown"
    assert any("modes of replay: recorded and live" in why for why in command.json["invalid"])
    assert command.json["sentence"].startswith("No conclusion may be drawn: ")
    assert command.json["sentence"].index("modes of replay") < command.json["sentence"].index("arbage")
    assert command.json["pairs"] == 0


def test_two_arms_are_compared_by_episode(soak: Soak, fake: Fakes) -> None:
    """A looping arm beside one that follows: no turn is paired, loops and turns per task are set side by side."""
    follow, loop = fake(*FOLLOW), fake(*FOLLOW, "--ways", "loop", "--astray-at", 1)
    arms = ("--arm", f"baseline={loop.url}", "--arm", f"candidate={follow.url}")
    command = soak(
        "run", "--scenario", "smoke", *arms, "--passes", 2, "--run", "both", *LIVE, "--set", "live.max_turns=3"
    )
    looped = command.json["arms"]["baseline"]["conversations"]
    assert looped["reasons"] == {"loop": 6}
    assert looped["looped"][0]["loop"]["onset_turn"] == 1
    assert "conversation loops: 6 of 6 tasks" in command.err
    compared = soak("compare", "both", "--json").json
    assert (compared["pairs"], compared["clusters"]) == (0, 3)
    assert compared["unpaired"] == sum(arm["turns"]["finished"] for arm in command.json["arms"].values())
    assert "episodes" in compared["classes"]["any_failure"]["test"]
    found = compared["conversations"]
    assert (found["pairs"], found["baseline"]["loops"], found["candidate"]["loops"]) == (6, 6, 0)
    assert found["p_loops"] == 0.25
    assert "Conversation loops 6 of 6 → 0 of 6 tasks" in compared["sentence"]


@pytest.mark.parametrize("seed", range(2))
def test_a_killed_live_run_goes_on_exactly(begin: Soak, soak: Soak, fake: Fakes, tmp_path: Path, seed: int) -> None:
    """SIGKILL at random moments, then resume: every conversation ends once, with the messages of a run never killed."""
    server = fake(*FOLLOW, "--first-chunk-s", 0.05)
    soak(*order(server, "whole", "--in-flight", 2))
    dice = random.Random(seed)
    command = begin(*order(server, "killed", "--in-flight", 2))
    for _ in range(2):
        wait_until((tmp_path / "killed" / "manifest.json").exists, what="the manifest")
        command.said("run begins")
        time.sleep(dice.uniform(0.0, 0.5))  # the moment itself: wherever the run happens to be
        command.signal(signal.SIGKILL)
        command.wait()
        command = begin("resume", "killed", "--json")
    command.wait()
    assert command.json["state"] == "complete"
    assert conversations(tmp_path / "killed") == conversations(tmp_path / "whole")
    ends = ends_of(tmp_path / "killed")
    assert len(ends["finished"]) == len(set(ends["finished"])) == 22
    assert starts_of(tmp_path / "killed") == 22 + len(ends["indeterminate"])

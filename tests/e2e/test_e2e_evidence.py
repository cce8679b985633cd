"""The engine's evidence turn by turn, from a server whose counters move with what it sent."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake

from soak.app.judging import engine_turns_of
from soak.check import final_turns
from soak.store import RunFolder

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]
TURN = re.compile(r"^ *(\S+:\d+:\d+:\w+) ", re.MULTILINE)
ORDER = ("run", "--scenario", "smoke", "--run", "run", "--json", "--set", "sampling.max_tokens=1500")


def evidence_of(summary: dict[str, Any]) -> dict[str, Any]:
    (arm,) = summary["arms"].values()
    found: dict[str, Any] = arm["evidence"]
    return found


def test_lone_turns_have_their_own_counters(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """
    With one turn in flight every turn is exact: loops show full acceptance, preemptions and NaN are those the server
    had, the sums are those of the run, and `check` and `show` say the same without a server.
    """
    server = fake("--rates", "loop=0.25", "--seed", 3, "--full-in-loops", "--preempt-every", 5, "--corrupt-every", 6)
    done = soak(*ORDER, "--target", server.url, "--passes", 2, "--in-flight", 1)
    (arm,) = done.json["arms"].values()
    found = evidence_of(done.json)
    finished, loops = arm["turns"]["finished"], arm["turns"]["garbage_loop"]
    assert (found["alone"], found["overlap"], found["unread"]) == (finished, 0, 0)
    assert 0 < loops < finished
    assert found["findings"]["acceptance_full"] == loops
    assert found["findings"]["preemption"] == arm["engine"]["preemptions"] > 0
    assert 0 < found["findings"]["corrupted"] < finished
    assert found["by_class"]["garbage_loop"]["acceptance_rate"] == 1.0
    assert 0.3 < found["by_class"]["ok"]["acceptance_rate"] < 0.5
    assert sum(group["drafts"] for group in found["by_class"].values()) == arm["speculation"]["drafts"]
    assert all(band["acceptance"]["exact"] == 1.0 for band in found["by_depth"])
    again = soak("check", "run", "--json")
    assert evidence_of(again.json) == found
    loop = TURN.findall(soak("show", "run", "--class", "garbage_loop").out)[0]
    page = soak("show", "run", loop).out
    assert "engine: 100 % of " in page
    assert "(counters; the turn was alone)" in page
    assert "engine: every draft accepted: the engine accepted 100 % of" in page
    page_of_run = soak("report", "run", "--html", "page.html")
    assert page_of_run.code == 0, page_of_run.err
    html = (tmp_path / "page.html").read_text("utf-8")
    assert "What the engine did turn by turn" in html
    assert "engine: every draft accepted: the engine accepted 100 % of" in html


def test_turns_in_company_are_marked_as_such(soak: Soak, fake: Fakes) -> None:
    """Several in flight: the counters are shared out and marked, unless the answers tell their own drafts."""
    server = fake("--rates", "none", "--gap-s", 0.002, "--tells-drafts")
    done = soak(*ORDER, "--target", server.url, "--passes", 2, "--in-flight", 4)
    found = evidence_of(done.json)
    (arm,) = done.json["arms"].values()
    assert found["overlap"] > 0
    assert found["told"] == arm["turns"]["finished"]
    assert found["by_class"]["ok"]["exact"] == 1.0
    turn = TURN.findall(soak("show", "run").out)[0]
    assert "(told with the answer)" in soak("show", "run", turn).out
    with RunFolder.open(server.truth_file.parent / "run").history() as history:
        samples = list(history.samples())
    assert all(before.at <= after.asked_at <= after.at for before, after in pairwise(samples))


def test_a_collapse_by_prompt_length_is_told(soak: Soak, fake: Fakes) -> None:
    """Drafts of prompts from 1,024 tokens on are refused: the run's reasons name the band, and a gate can hold it."""
    server = fake("--rates", "none", "--refused-from", 1024, "--answer-tokens", 200)
    gate = ("--set", 'thresholds.pass_if=["evidence.findings.acceptance_none <= 0.5"]')
    done = soak(*ORDER, "--target", server.url, "--passes", 3, "--in-flight", 1, *gate)
    found = evidence_of(done.json)
    assert any(alarm.startswith("acceptance has collapsed for prompts of 1,024 to 2,047") for alarm in found["alarms"])
    assert found["alarms"][0] in done.json["reasons"]
    assert found["findings"]["acceptance_none"] > 0
    assert done.json["verdict"] == "fail", done.json["reasons"]


@pytest.mark.parametrize("speculation", ["off", "stuck"])
def test_an_engine_without_drafts_says_nothing_of_acceptance(soak: Soak, fake: Fakes, speculation: str) -> None:
    """Without speculation there are no groups, no drift and no counts of acceptance, and none is 0 for want of it."""
    server = fake("--rates", "none", "--speculation", speculation)
    found = evidence_of(soak(*ORDER, "--target", server.url, "--passes", 1, "--in-flight", 1).json)
    assert (found["by_depth"], found["by_class"], found["alarms"]) == ([], {}, [])
    assert ("acceptance_full" in found["findings"]) is (speculation == "stuck")


@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_a_real_engines_counters_are_those_of_its_lone_turns(begin: Soak, engine_url: str, tmp_path: Path) -> None:
    """On a real vLLM each lone turn's cache hits, by the counters around it, are those that its usage tells."""
    few = ("--turns", 3, "--in-flight", 1, "--set", "sampling.max_tokens=24")
    done = begin(*ORDER[:5], "--target", engine_url, *few).wait(900)
    folder = RunFolder.open(tmp_path / "run")
    with folder.history() as history:
        found = engine_turns_of(history, folder.manifest, final_turns(history.outlines())).values()
    assert [turn.attributed for turn in found] == ["alone"] * 3, done.err
    assert [turn.prefix_hits for turn in found] == [turn.cached for turn in found]
    assert [turn.prefix_queries for turn in found] == [turn.prompt for turn in found]

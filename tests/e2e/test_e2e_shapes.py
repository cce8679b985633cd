"""Load shapes and secret words through the command line, against servers that leak and that preempt."""

import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from rigs.cli import Command, Fake, ends_of, planned_keys, starts_of

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

RUN = "run"
WORDS = ("--set", "canaries=true")
QUICK = ("--set", "retries.wait_max_s=0.05", "--set", "sampling.max_tokens=1500", "--run", RUN, "--json")


def order(server: Fake, scenario: str, *more: object) -> tuple[object, ...]:
    return ("run", "--scenario", scenario, "--target", server.url, *QUICK, *more)


def findings_of(folder: Path) -> dict[int, list[str]]:
    """Return the kinds of findings of each finished turn by the seed of its request."""
    with closing(sqlite3.connect(folder / "history.sqlite")) as history:
        starts = [json.loads(body) for (body,) in history.execute("SELECT body FROM starts")]
        ends = [json.loads(body) for (body,) in history.execute("SELECT body FROM ends WHERE outcome = 'finished'")]
    seeds = {json.dumps(start["key"]): start["seed"] for start in starts}
    return {
        seeds[json.dumps(end["key"])]: [finding["kind"] for finding in end["judgement"]["findings"]] for end in ends
    }


def test_every_leaked_word_is_found_and_nothing_else(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Of all turns exactly those with another conversation's word are contaminated, live and judged again: exit 1."""
    server = fake("--rates", "none", "--leak", 0.2, "--first-chunk-s", 0.01)
    done = soak(*order(server, "smoke", "--passes", 7, "--in-flight", 8, *WORDS))
    truth, found = server.truth(), findings_of(tmp_path / RUN)
    leaked = {seed for seed, row in truth.items() if row["fault"] == "leak"}
    assert len(leaked) >= 8
    assert {seed for seed, kinds in found.items() if "contamination" in kinds} == leaked
    arm = done.json["arms"]["candidate"]
    assert arm["canaries"]["contaminated"] == arm["kinds"]["contamination"] == arm["turns"]["error"] == len(leaked)
    assert (done.code, done.json["verdict"]) == (1, "fail")
    assert any("another conversation's secret word; each one is certain" in reason for reason in done.json["reasons"])
    assert judged_again(soak)["arms"]["candidate"]["canaries"] == arm["canaries"]


def judged_again(soak: Soak) -> Any:
    """Return the summary of the run after every stored answer was read again, which other settings enforce."""
    return soak("check", RUN, "--classify", "suspect_points=1.5", "--json").json


def test_a_server_that_keeps_words_apart_passes_and_recall_is_told(soak: Soak, fake: Fakes) -> None:
    """Without a leak nothing is contaminated; the share of words recalled stands with its interval; exit 0."""
    server = fake("--rates", "none", "--recall", 0.5)
    done = soak(*order(server, "smoke", "--passes", 8, *WORDS))
    found = done.json["arms"]["candidate"]["canaries"]
    assert (done.code, found["contaminated"]) == (0, 0)
    assert found["asked"] == 16
    assert 0 < found["recalled"] < 16
    assert found["recall_ci95"][0] < found["recall_rate"] < found["recall_ci95"][1]


def test_pressure_is_raised_until_the_engine_preempts(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """In flight rises from 2 until the counter moves, the summary says with how many, the manifest what was planned."""
    server = fake("--rates", "none", "--first-chunk-s", 0.2, "--preempts-above", 4)
    pressure = ("--set", "load.pressure={cap: 30, step: 3, every_s: 1}", "--set", "scrape_every_s=0.5")
    done = soak(*order(server, "smoke", "--passes", 10, *pressure))
    assert done.json["arms"]["candidate"]["engine"]["preemptions"] > 0
    (said,) = [reason for reason in done.json["reasons"] if reason.startswith("pressure: preemption seen")]
    reached = int(said.partition("at most ")[2].split()[0])
    assert 5 <= reached < 30
    manifest = json.loads((tmp_path / RUN / "manifest.json").read_text())
    assert manifest["shapes"]["said"][0].startswith("pressure: from 2 in flight 3 more every 1 s")


def test_no_preemption_is_said_plainly_and_is_unknown(soak: Soak, fake: Fakes) -> None:
    """A cap that does not suffice leaves the run unknown, in plain words."""
    server = fake("--rates", "none")
    pressure = ("--set", "load.pressure={cap: 4, step: 2, every_s: 1}")
    done = soak(*order(server, "smoke", *pressure))
    assert (done.code, done.json["verdict"]) == (3, "unknown")
    assert "no preemption seen: what happens under pressure was not tried" in done.json["reasons"]


def test_two_arms_get_the_same_shapes_and_can_be_compared(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Overlap, padding, aborts and words are the same on both arms, so pairs stand and aborted turns are in none."""
    first, second = fake("--rates", "none", "--gap-s", 0.001), fake("--rates", "early_stop=0.1", "--gap-s", 0.001)
    shapes = "{in_flight: 4, overlap: {siblings: 2}, staggered: {together: 2}, abort: {share: 0.2, max_chars: 60}}"
    run = soak("run", "--scenario", "smoke", "--arm", f"baseline={first.url}", "--arm", f"candidate={second.url}",
               "--passes", 2, "--set", f"load={shapes}", *WORDS, *QUICK)  # fmt: skip
    arms = run.json["arms"]
    assert arms["baseline"]["turns"]["aborted"] == arms["candidate"]["turns"]["aborted"] > 2
    planned = arms["baseline"]["turns"]["planned"]
    assert arms["baseline"]["turns"]["ok"] + arms["baseline"]["turns"]["aborted"] == planned
    assert any(f"{planned} of {planned} prompts end at their place" in reason for reason in run.json["reasons"])
    compared = soak("compare", RUN, "--json").json
    assert compared["invalid"] == []
    assert compared["pairs"] == planned - arms["baseline"]["turns"]["aborted"]
    shown = soak("show", RUN).out
    assert "aborted" in shown
    assert "as planned" in shown


def test_a_run_with_shapes_that_is_killed_is_finished_once(begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """SIGKILL in the middle and a resume: done + remaining = plan, no turn twice, and no word is called foreign."""
    server = fake("--rates", "none", "--first-chunk-s", 0.04, "--gap-s", 0.001)
    shapes = "{in_flight: 4, overlap: {siblings: 3, depth: 0}, staggered: {together: 2}, abort: {share: 0.3}}"
    command = begin(*order(server, "smoke", "--set", f"load={shapes}", *WORDS))
    command.said("run begins")
    command.signal(signal.SIGKILL)
    command.wait()
    last = begin("resume", RUN, "--json").wait()
    ends = ends_of(tmp_path / RUN)
    done = ends["finished"] + ends["skipped"] + ends["aborted"]
    assert len(done) == len(set(done))
    assert set(done) == planned_keys(tmp_path / RUN)
    assert starts_of(tmp_path / RUN) == len(ends["finished"]) + len(ends["aborted"]) + len(ends["indeterminate"])
    turns = last.json["arms"]["candidate"]["turns"]
    assert turns["planned"] == turns["finished"] + turns["aborted"] == len(done)
    assert turns["aborted"] == len(ends["aborted"]) > 0
    assert last.json["arms"]["candidate"]["canaries"]["contaminated"] == 0


def test_the_plan_is_shown_with_its_shapes(soak: Soak, steady: Fake) -> None:
    """`--plan` of the shipped scenarios names every shape they have, and sends nothing."""
    told = soak("run", "--scenario", "cache_stress", "--plan", "--target", steady.url)
    assert told.code == 0
    for name in ("overlap:", "staggered:", "abort:", "pressure:", "idle gaps:", "canaries:"):
        assert name in told.out
    plan = soak("run", "--scenario", "canaries", "--plan", "--json", "--target", steady.url).json
    assert plan["shapes"]["recall"] == 14
    assert plan["turns"] == plan["shapes"]["pass_turns"]

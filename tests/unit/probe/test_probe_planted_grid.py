"""The bench of the grid on a real engine: what kept answers come to, and the table of it. No engine is needed."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from rigs.grids import a_trial

from soak.facts import Case, Trial
from soak.probe import cells_of
from soak.store import Journal

BENCH = Path(__file__).parents[3] / "ops" / "bench"
REPEATS = 10


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The bench, as it is run."""
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("planted_grid")


def kept_answers(bench: ModuleType, folder: Path, faults: tuple[str, ...], missing: int = 0) -> None:
    """Keep answers that loop wherever the fault is, but for the first in a cell with a cache that it needs."""
    plan = bench.Plan(faults=faults, seeds=2, repeats=REPEATS, max_tokens=200)
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    for cell in cells_of(bench.grid_of(folder, plan)):
        place = folder / bench.name_of(cell)
        place.mkdir()
        trials = [
            trial for fault in faults for ask in plan.asks(fault, cell) for trial in answers(ask, fault, bench, cell)
        ]
        with Journal(place / "trials.jsonl", Trial) as journal:
            for trial in trials[missing:]:
                journal.add(trial)


def answers(ask: Any, fault: str, bench: ModuleType, cell: Any) -> list[Trial]:
    """Return made-up answers to one conversation in one cell."""
    speculation, cache = bench.state_of(cell)
    there = {"none": False, "spec": speculation, "cache": cache, "both": speculation and cache}[fault]
    warm = fault == "spec"
    case: Case = ask.case
    return [a_trial(repeat, bad=there and (warm or repeat > 1), case=case) for repeat in ask.counted]


def test_each_planted_fault_is_named_and_nothing_where_none_is(bench: ModuleType, tmp_path: Path) -> None:
    """The totals say for each fault how often the setting it needs was named, and how many answers failed where."""
    kept_answers(bench, tmp_path, ("none", "spec", "cache", "both"))
    found = bench.figures(tmp_path)
    assert {fault: (one["named"], one["named_rightly"]) for fault, one in found["faults"].items()} == {
        "none": (0, 0), "spec": (2, 2), "cache": (2, 2), "both": (2, 2),
    }  # fmt: skip
    failed = found["faults"]["both"]["failed"]
    assert failed.pop("with_spec-with_cache") == 2 * (REPEATS - 1)
    assert list(failed.values()) == [0, 0, 0]
    assert found["answers"] == 4 * 2 * 4 * REPEATS
    assert {one["answers"] for one in found["faults"].values()} == {2 * 4 * REPEATS}


def test_a_conversation_with_answers_missing_has_no_verdict(bench: ModuleType, tmp_path: Path) -> None:
    """What is not asked to the end is neither named nor found healthy."""
    kept_answers(bench, tmp_path, ("spec",), missing=1)
    first, second = bench.figures(tmp_path)["rows"]
    assert (first["outcome"], first["name"]) == ("unanswered", None)
    assert (second["outcome"], second["name"]) == ("found", "speculation")


def test_no_conversation_shares_its_beginning_with_another(bench: ModuleType) -> None:
    """Each fault and seed has a text, a salt and request seeds of its own, so that no cache holds what is not its."""
    plan = bench.Plan(faults=tuple(bench.FAULTS), seeds=10, repeats=REPEATS, max_tokens=200)
    cases = [plan.case(fault, seed) for fault in plan.faults for seed in range(plan.seeds)]
    assert len({case.extra_body["cache_salt"] for case in cases}) == len({case.digest for case in cases}) == len(cases)
    assert all(str(case.messages[0].content).startswith(f"Notes of {case.name}") for case in cases)


def test_the_table_says_what_the_figures_say(bench: ModuleType, tmp_path: Path) -> None:
    """A row for each fault: the name, how many seeds got it, what was said otherwise, and the loops in each cell."""
    kept_answers(bench, tmp_path, ("none", "both"))
    found = bench.figures(tmp_path)
    server = {"engine": "vllm", "version": "0.32.0", "model": "tiny", "settings": {}}
    lines = import_module("grid_page").table(found | {"servers": dict.fromkeys(found["servers"], server)}).splitlines()
    assert lines[2] == "| nothing | anything | 0 of 2 | 2 nothing | 0% | 0% | 0% | 0% |"
    both = "`garbage_loop:0.8;only_spec;only_cache`"
    assert lines[3] == f"| {both} | cache × speculation | 2 of 2 |  | 90% | 0% | 0% | 0% |"
    assert lines[-1].startswith("vllm 0.32.0, tiny; 160 answers of at most 200 tokens")


@pytest.mark.skipif(not (BENCH / "results" / "planted_grid.json").exists(), reason="no figures are kept")
def test_the_page_equals_the_figures() -> None:
    """The table of the runbook is what ops/bench/grid_page.py makes of the kept figures."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "grid_page.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

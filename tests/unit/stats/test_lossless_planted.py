"""The bench of faults planted in a real engine: its figures from kept scores, and its part of the page."""

import json
import subprocess
import sys
from pathlib import Path

from rigs.cli import environment
from rigs.drawing import CARD, outputs_of, wrong

from soak.facts import RescoredOutput, SamplingLaw
from soak.facts.rescoring import to_lines

ROOT = Path(__file__).parents[3]
LAW = SamplingLaw(top_p=0.95)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the bench."""
    command = [sys.executable, "-m", "ops.bench.planted_lossless", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment())


def keep(folder: Path, planted: str, fired: int, outputs: list[RescoredOutput]) -> None:
    """Keep the scores of a case as the bench does."""
    folder.mkdir(parents=True)
    (folder / "candidate-by-server.jsonl").write_bytes(b"".join(to_lines(CARD, outputs)))
    drawn = {"planted": planted, "answers": len(outputs), "fired": fired, "counts": {"drafts": 9, "accepted": 4}}
    (folder / "drawn.json").write_text(json.dumps(drawn))


def test_figures_come_from_kept_scores_alone(tmp_path: Path) -> None:
    """A healthy case never deviates, one with wrong tokens does early, and one that never happened is an error."""
    healthy = outputs_of(LAW, 31, outputs=8)
    keep(tmp_path / "healthy" / "t1", "", 0, healthy)
    keep(tmp_path / "wrong-token" / "t1", "wrong_token:0.001", 30, outputs_of(LAW, 32, outputs=8, fault=wrong(0.01)))
    keep(tmp_path / "kv-off-by-one" / "t1", "kv_off_by_one:1", 0, healthy)
    (tmp_path / "about.txt").write_text("a draw")
    out = tmp_path / "out.json"
    done = bench("--figures", str(tmp_path), "--seeds", "4", "--out", str(out))
    assert done.returncode == 1
    assert done.stderr.strip() == "planted, but it never happened: kv-off-by-one (T 1, top_p 0.95)"
    fine, broken, never = json.loads(out.read_text())["rows"]
    assert (fine["case"], fine["deviates"], fine["turns_deviating"]) == ("healthy", {"1000": 0.0, "3000": 0.0}, 0)
    assert fine["tokens_90"] is None
    assert (broken["deviates"]["3000"], broken["disjoint_to"], broken["result"]) == (1.0, 800, "deviates")
    assert broken["median_tokens"] <= broken["tokens_90"] <= 1000
    assert 0 < broken["turns_deviating"] <= broken["turns"] == 8
    assert never["case"] == "kv-off-by-one"
    assert "| (a) wrong token, 1 in 1,000 | 3,200 | 30 | 9 (4) | 1.0 | 1.0 | – | – |" in done.stdout
    assert "the fault never happened: nothing was measured" in done.stdout


def test_the_page_equals_what_was_measured_in_the_engine() -> None:
    """The section of planted engines says what the kept result says."""
    done = bench("--page", "check")
    assert done.returncode == 0, done.stderr

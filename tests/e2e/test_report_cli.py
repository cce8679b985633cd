"""`soak compare` with gates and files, and `soak report`, over stored runs of real servers."""

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.cli import Command, Fake, Nursery

Soak = Callable[..., Command]
SMALL = ("--set", "retries.wait_max_s=0.05", "--set", "sampling.max_tokens=400")
LOOPS, ERRORS = "loop=0.1", "loop=0.1,error_event=0.6"


@pytest.fixture(scope="module")
def runs(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs: `a` and `b` loop now and then, `c` also answers most turns with an error."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed, rates in (("a", 1, LOOPS), ("b", 2, LOOPS), ("c", 3, ERRORS)):
        with Fake(folder, "--seed", seed, "--rates", rates) as server:
            order = ("run", "--scenario", "smoke", "--target", server.url, "--passes", 4, "--run", name, *SMALL)
            done = nursery.begin(*order, cwd=folder).wait()
        assert done.code in (0, 1, 3), done.err
    return folder


def test_without_gates_no_difference_seen_is_unknown(soak: Soak, runs: Path) -> None:
    """Two runs of one build are inconclusive: exit code 3, gates empty."""
    done = soak("compare", "a", "b", "--json", cwd=runs)
    assert done.code == 3, done.err
    assert done.json["verdict"] == "unknown"
    assert done.json["gates"] == []


@pytest.mark.parametrize(
    ("conditions", "code", "holds"),
    [
        (("classes.error.result == regression",), 0, [False]),
        (("wall_clock.ratio > 1000", "classes.garbage_loop.baseline.events > 0"), 1, [False, True]),
        (("wall_clock.ratio > 0 and classes.garbage_loop.baseline.turns == 44",), 1, [True]),
        (("margin > 1%",), 3, [None]),
    ],
)
def test_gates_decide_the_exit_code(
    soak: Soak, runs: Path, conditions: tuple[str, ...], code: int, holds: list[bool | None]
) -> None:
    """One that holds is exit 1, one on what was not measured 3, else 0; the JSON says what became of each."""
    options = [word for text in conditions for word in ("--fail-on", text)]
    done = soak("compare", "a", "b", "--json", *options, cwd=runs)
    assert done.code == code, done.err
    assert [gate["holds"] for gate in done.json["gates"]] == holds
    assert done.json["verdict"] == {0: "pass", 1: "fail", 3: "unknown"}[code]


def test_a_proven_regression_fails_whatever_the_gate_looks_at(soak: Soak, runs: Path) -> None:
    """Errors in most turns are a regression: exit 1, though the only condition does not hold."""
    done = soak("compare", "a", "c", "--fail-on", "wall_clock.ratio > 1000", cwd=runs)
    assert done.code == 1, done.out
    assert done.out.startswith("FAIL")
    assert "wall_clock.ratio > 1000 does not hold" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("classes.garbage_lop.p_value < 0.05", "classes.garbage_loop.p_value"),
        ("classes.error.result == bad", "it is one of"),
        ("nonsense", "not of the form"),
    ],
)
def test_a_wrong_condition_is_refused_before_anything_is_read(soak: Soak, condition: str, hint: str) -> None:
    """Exit 2 with near names, although there is no such run."""
    done = soak("compare", "no-such-run", "nor-this", "--fail-on", condition)
    assert done.code == 2
    assert hint in done.error_lines()[1]


def test_files_are_written_beside_what_is_printed(soak: Soak, runs: Path, tmp_path: Path) -> None:
    """Markdown on stdout, a page and JUnit in files, all with the counts of the JSON."""
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    found = soak("compare", "a", "c", "--json", cwd=runs).json["classes"]["error"]
    done = soak("compare", "a", "c", "--markdown", "--html", page, "--junit", junit, cwd=runs)
    assert done.code == 1, done.err
    assert {f"written: {page}", f"written: {junit}"} <= set(done.err.splitlines())
    counts = [f"{found[arm]['events']} of {found[arm]['turns']}" for arm in ("baseline", "candidate")]
    assert f"| error | {counts[0]} | {counts[1]} |" in done.out
    assert f"<td>{counts[0]}</td><td>{counts[1]}</td>" in page.read_text()
    cases = {case.get("name"): case for case in ET.parse(junit).iter("testcase")}
    failure = cases["error"].find("failure")
    assert failure is not None
    assert f"{counts[0]} → {counts[1]}" in failure.get("message", "")


@pytest.mark.parametrize(("names", "title"), [("a", "a report"), ("ab", "a comparison"), ("abc", "a report")])
def test_a_report_is_one_page_of_one_or_more_runs(
    soak: Soak, runs: Path, tmp_path: Path, names: str, title: str
) -> None:
    """One run, two (then also compared) or three: one page with every arm's turns."""
    done = soak("report", *names, "--html", tmp_path / "page.html", cwd=runs)
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert f"<title>soak: {title}</title>" in page
    assert all(f"<td>{name}</td>" in page for name in names)
    assert page.count("<svg ") >= 4


@pytest.mark.parametrize("file", ["missing/page.html", "."])
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(soak: Soak, file: str) -> None:
    """Exit 2 for a folder that is not there, and for a folder in place of a file."""
    for order in (("report", "no-such-run"), ("compare", "no-such-run", "nor-this")):
        done = soak(*order, "--html", file)
        assert done.code == 2
        assert "cannot be written" in done.error_lines()[0]


def test_a_report_without_a_file_says_what_to_add(soak: Soak) -> None:
    """Exit 2, and the hint is the option."""
    done = soak("report", "no-such-run")
    assert done.code == 2
    assert "--html FILE" in done.error_lines()[2]


def test_a_stated_margin_reaches_the_comparison(soak: Soak, runs: Path) -> None:
    """--margin and --time-margin are shares, with or without the sign; what is none is refused."""
    done = soak("compare", "a", "b", "--json", "--margin", "50%", "--time-margin", "0.9", cwd=runs)
    assert (done.json["margin"], done.json["time_margin"]) == (0.5, 0.9)
    assert done.json["classes"]["error"]["result"] == "equivalent"
    assert soak("compare", "a", "b", "--margin", "50", cwd=runs).code == 2


def test_a_manifest_without_the_arm_of_its_history(soak: Soak, runs: Path, tmp_path: Path) -> None:
    """Turns of an arm that the manifest does not name are exit 7 for `check` and `compare`, whoever judged them."""
    other = shutil.copytree(runs / "a", tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps({**manifest, "arms": []}))
    for order in (("check", other), ("compare", runs / "b", other)):
        done = soak(*order)
        assert done.code == 7, done.err
        assert "do not belong together" in done.error_lines()[0]

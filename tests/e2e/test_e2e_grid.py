"""The grid and workaround arms through the command line: servers started in every state, and what is said of them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.cli import TESTS, Command, Fake

from soak.store import RunFolder

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

LONG = "sampling.max_tokens=400"
TWO = "about: Two.\nrepeats: 6\nfactors:\n  speculation: [as_built, off]\n  prefix_cache: [as_built, off]\n"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of builds that is not the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "soak-cache"))


def build(folder: Path, *options: str) -> str:
    """Write a build that starts the scripted server and says its switches; return its path."""
    content = {
        "about": "The scripted server.",
        "engine": "command",
        "model": "fake-model",
        "command": [sys.executable, "-m", "fakes", "--port", "{port}", *options],
        "environment": {"PYTHONPATH": str(TESTS), "OPENBLAS_NUM_THREADS": "1"},
        "switches": {
            "speculation": {"on": ["--speculation=on"], "off": ["--speculation=off"]},
            "prefix_cache": {"on": ["--prefix-cache=on"], "off": ["--prefix-cache=off"]},
        },
    }
    (folder / "mine.yaml").write_text(json.dumps(content))
    (folder / "two.yaml").write_text(TWO)
    return "mine.yaml"


def test_a_run_is_followed_by_a_grid_that_names_what_its_fault_needs(soak: Soak, tmp_path: Path) -> None:
    """The run finds failing turns, four servers are started one after the other, and both settings are named."""
    mine = build(tmp_path, "--rates", "loop=0.9", "--needs", "speculation,prefix_cache")
    run = ("run", "--scenario", "smoke", "--target", mine, "--turns", 2, "--set", LONG, "--grid", "two.yaml",
           "--grid-turns", 1)  # fmt: skip
    planned = soak(*run, "--plan", "--json")
    assert planned.code == 0, planned.err
    assert planned.json["grid"]["requests"] == 24
    assert len(planned.json["grid"]["servers"]) == 4
    assert not (tmp_path / "runs").exists()
    done = soak(*run, "--run", "r", "--json")
    grid = done.json["grid"]
    assert grid["name"] == "cache × speculation", done.err
    assert grid["text"].startswith("fails in ")
    assert done.json["summary"]["schema"] == "soak.summary/1"
    assert done.code == 3, "the run's own verdict: two turns are too few for any"
    assert "run folder: r" in done.err
    assert len(grid["turns"]) == 1
    text = soak("probe", "r", grid["turns"][0], "--grid", "two.yaml", "--into", "r/grid").out
    assert text.splitlines()[-1] == grid["text"]
    assert "speculation as built; cache off" in text


def test_a_url_can_be_asked_what_a_request_changes(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Without a build the server's own settings are listed as not tried, with the reason; --plain adds one of them."""
    build(tmp_path)
    server, plain = fake("--rates", "loop=0.9"), fake("--rates", "none", "--speculation", "off")
    soak("run", "--scenario", "smoke", "--target", server.url, "--turns", 2, "--set", LONG, "--run", "r")
    (tmp_path / "three.yaml").write_text(TWO + "  sampling.top_k: [as_asked, 40]\n")
    alone = soak("probe", "r", "--failing", 1, "--grid", "three.yaml", "--plan", "--json")
    assert alone.code == 0, alone.err
    assert alone.json["requests"] == 2 * 6
    assert len(alone.json["untried"]) == 3
    assert "it is a server that runs already" in alone.json["untried"][0]
    before = server.truth_file.read_bytes()
    both = soak("probe", "r", "--failing", 1, "--grid", "three.yaml", "--plain", plain.url, "--json")
    assert both.json["name"] == "speculation", both.err
    assert [cell["levels"]["speculation"] for cell in both.json["cells"]] == ["as built"] * 2 + ["off"] * 2
    assert len(server.truth_file.read_bytes()) > len(before)
    refused = soak("probe", "r", "--failing", 1, "--grid", "two.yaml")
    assert (refused.code, "fewer than two cells" in refused.err) == (2, True)


def test_what_a_grid_is_not(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Several turns without a grid, no failing turn, two arms, a grid that is wrong: each is told with its code."""
    build(tmp_path)
    server = fake("--rates", "none")
    soak("run", "--scenario", "smoke", "--target", server.url, "--turns", 2, "--run", "r")
    arms = ("--arm", f"a={server.url}", "--arm", f"b={server.url}")
    for arguments, code, words in (
        (("probe", "r", "x:0:0", "y:0:0"), 2, "several turns were named"),
        (("probe", "r", "--failing", 2, "--grid", "default"), 2, "no turn of r failed"),
        (("probe", "r", "x:0:0", "--grid", "default", "--failing", 1), 2, "it is not clear which turn"),
        (("probe", "--grid", "default", "--failing", 1), 2, "it is not clear which turn"),
        (("run", "--scenario", "smoke", *arms, "--grid", "default"), 2, "--grid needs a run of one arm"),
        (("run", "--scenario", "smoke", "--target", server.url, "--grid", "x"), 4, "no grid 'x'"),
        (("run", "--scenario", "smoke", *arms, "--set", "c:sampling.top_k=4"), 2, "is for no arm"),
        (("run", "--scenario", "smoke", *arms, "--set", "a:sampling.top_x=4"), 2, "cannot be used"),
        (("run", "--scenario", "smoke", *arms, "--set", "a:load.in_flight=4"), 2, "cannot be used"),
    ):
        command = soak(*arguments)
        assert (command.code, words in command.error_lines()[0]) == (code, True), command.err
    (tmp_path / "chance.yaml").write_text("about: x\nrepeats: 2\nfactors:\n  sampling.top_k: [as_asked, 40]\n")
    clean = soak("run", "--scenario", "smoke", "--target", server.url, "--turns", 1, "--grid", "chance.yaml", "--json")
    assert clean.json["grid"] is None
    assert "no grid: no turn failed" in clean.err


def test_a_workaround_is_an_arm_with_sampling_of_its_own(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Both arms get every turn with the same seeds; compare is valid, opens with the field and says what it leaves."""
    server = fake("--rates", "loop=0.3")
    arms = ("--arm", f"plain={server.url}", "--arm", f"penalised={server.url}")
    own = ("--set", "penalised:sampling.repetition_penalty=1.1")
    done = soak("run", "--scenario", "smoke", *arms, *own, "--set", LONG, "--run", "r", "--json")
    assert {arm["turns"]["finished"] for arm in done.json["arms"].values()} == {11}, done.err
    folder = RunFolder.open(tmp_path / "r")
    assert [card.sampling for card in folder.manifest.arms] == [{}, {"repetition_penalty": 1.1}]
    with folder.history() as history:
        asked = {(*started.key.pair, started.seed, started.request) for started in history.starts()}
    assert len(asked) == 11
    found = soak("compare", "r", "--json").json
    assert found["invalid"] == []
    assert found["pairs"] == 11
    assert found["noise_floor"] is None
    assert "the arms were asked with different sampling" in found["warnings"][0]
    assert "repetition_penalty as the scenario says and 1.1" in found["warnings"][0]
    assert "losslessness" in found["warnings"][0]
    assert not any("same arm" in text for text in found["warnings"])
    key = next(word for word in soak("show", "r").out.split() if word.endswith(":penalised"))
    assert soak("probe", "r", key, "--only-repeats", "--repeats", 1, "--into", "p", "--target", server.url).code == 0
    (trial,) = [json.loads(line) for line in (tmp_path / "p" / "trials.jsonl").read_text().splitlines()]
    assert trial["seed"] in {one[3] for one in asked}
    assert found["cards"]["rows"][0] == {
        "name": "sampling.repetition_penalty",
        "baseline": "as the scenario says",
        "candidate": "1.1",
    }

"""Two arms in one run that ends by its own evidence, and what `compare`, `check` and `power` say of it afterwards."""

import json
from collections.abc import Callable
from pathlib import Path

from rigs.cli import Command, Fake, run_folder_in

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

ARGS = (
    *("--set", "sampling.max_tokens=400", "--set", "load.in_flight=4"),
    *("--set", "decide={alpha: 0.05}", "--passes", "40"),
)


def test_a_run_of_two_arms_ends_as_soon_as_it_is_decided(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A candidate that loops in a third of its turns is told from a sound baseline long before 40 passes are done."""
    good, bad = fake("--rates", "none"), fake("--rates", "loop=0.35")
    done = soak(
        "run", "--scenario", "smoke", "--arm", f"baseline={good.url}", "--arm", f"candidate={bad.url}", *ARGS, "--json"
    )
    summary = done.json
    assert summary["state"] == "complete"
    turns = summary["arms"]["candidate"]["turns"]
    assert 0 < turns["finished"] < turns["planned"] / 2
    assert "decided, regression: garbage loops" in done.err

    folder = run_folder_in(tmp_path)
    compared = soak("compare", str(folder), "--json")
    found = compared.json["classes"]["garbage_loop"]
    assert compared.code == 1
    assert found["result"] == found["evidence"]["direction"] == "regression"
    assert found["evidence"]["decided_after"] <= compared.json["pairs"]
    assert "anytime evidence E" in compared.json["sentence"]

    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["classifier"].startswith("sha256:")
    planned = soak("power", "--pilot", str(folder), "--rate-a", "5%", "--rate-b", "1%", "--json").json
    assert planned["designs"]["clustered"]["turns"] >= planned["designs"]["paired"]["turns"] > 0
    assert planned["designs"]["paired"]["hours"] > 0


def test_judging_again_gives_the_stored_classes(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Where the manifest does not name the classifiers every answer is judged anew, with the same counts."""
    server = fake("--rates", "loop=0.2,early_stop=0.2")
    soak("run", "--scenario", "smoke", "--target", server.url, "--set", "sampling.max_tokens=400", "--json")
    folder = run_folder_in(tmp_path)
    stored = soak("check", str(folder), "--json").json
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "classifier": None}))
    again = soak("check", str(folder), "--json").json
    assert again["arms"]["candidate"]["turns"] == stored["arms"]["candidate"]["turns"]


def test_power_needs_a_rate_and_a_question(soak: Soak) -> None:
    """Without a baseline rate, or with nothing asked, it is a usage error that says what to give."""
    assert soak("power", "--rate-b", "1%").code == 2
    assert soak("power", "--rate-a", "1%").code == 2
    assert soak("power", "--rate-a", "200%", "--rate-b", "1%").code == 2
    asked = soak("power", "--rate-a", "2.2%", "--turns", "500")
    assert asked.code == 0
    assert "500 turns per arm tell 2.2 % from" in asked.out


def test_power_says_what_hours_need(soak: Soak) -> None:
    """Hours that cannot be known come with the options that would tell them; very few are no exponent."""
    rates = ("--rate-a", "2.2%", "--rate-b", "1.1%")
    unknown = soak("power", *rates).out
    assert "80 % power, two-sided 5 %" in unknown
    assert "--tokens-per-turn and --tokens-per-s" in unknown
    told = soak("power", *rates, "--tokens-per-turn", 1, "--tokens-per-s", 1_000_000).out
    assert "<0.01" in told
    assert "--tokens-per-turn" not in told

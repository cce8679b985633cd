"""`soak probe --lossless` through the command line, against servers whose law is known."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, wait_until

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]


@pytest.fixture
def plain(fake: Fakes) -> Fake:
    """The trusted server: the law, without speculation and cache."""
    return fake("--corrupt", "0", "--speculation", "off", "--prefix-cache", "off")


def a_run(soak: Soak, server: Fake, tokens: int = 280) -> None:
    """Make a run of eleven turns of so many tokens."""
    size = f"sampling.max_tokens={tokens}"
    command = soak("run", "--scenario", "smoke", "--target", server.url, "--run", "run", "--set", size)
    assert command.code in (0, 1, 3), command.err


def probe(soak: Soak, plain: Fake, *words: str) -> Command:
    """Run the probe on the run, or on what the words name."""
    return soak("probe", *words, "--lossless", "--plain", plain.url, "--generation-config", "none", "--into", "probe")


def scored(folder: Path) -> list[bytes]:
    """Return the lines of scores, without the card."""
    return (folder / "candidate-by-server.jsonl").read_bytes().splitlines()[1:]


def test_a_server_that_samples_from_the_law_passes(soak: Soak, fake: Fakes, plain: Fake, tmp_path: Path) -> None:
    """Exit 0 with a bound, never a bare "lossless"; a second call scores nothing again, even with the server gone."""
    server = fake("--corrupt", "0")
    a_run(soak, server)
    planned = probe(soak, plain, "run", "--plan", "--json")
    assert (planned.code, planned.json["requests"], planned.json["output_tokens"]) == (0, 14, 14)
    assert not (tmp_path / "probe").exists()
    first = probe(soak, plain, "run", "--json", "--html", "page.html")
    assert first.code == 0, first.err
    found = first.json
    assert found["result"]["result"] == "no deviation found"
    assert found["result"]["tokens"] == 11 * 280
    assert found["result"]["bounds"]["mean_shift"] < 0.1
    assert found["vocabulary"] == 16_010
    assert found["width"] == 64
    assert len(scored(tmp_path / "probe")) == 11
    assert "impossible tokens" in (tmp_path / "page.html").read_text()
    plain.kill()
    kept = probe(soak, plain, "run", "--plan", "--json").json
    assert kept["kept"] == kept["requests"] == 14
    again = probe(soak, plain, "run", "--max-requests", "1")
    assert again.code == 0, again.err
    assert found["result"]["sentence"] in again.out
    assert found["result"]["sentence"].startswith("no deviation found in 3,080 tokens: mean shift below")


def test_a_server_that_gets_one_token_in_a_hundred_wrong_deviates(soak: Soak, fake: Fakes, plain: Fake) -> None:
    """Exit 1, the alarm named, the onset early, and the worst token with its text and the end of the cache near it."""
    server = fake("--corrupt", "0.01")
    a_run(soak, server)
    turns = ("run", "pocket-boundary:0:0", "pocket-boundary:1:0")
    command = probe(soak, plain, *turns, "--target", server.url, "--repeats", "6", "--control", "6", "--json")
    assert command.code == 1, command.err
    found = command.json
    assert found["result"]["result"] == "deviates"
    assert found["control"] == [6, 6 * 280]
    assert "impossible tokens" in found["result"]["sentence"]
    assert found["result"]["onset"]["token"] < 1500
    worst = found["result"]["worst"][0]
    assert worst["tier"] == 1
    assert str(worst["token_id"]) in found["texts"]
    assert any(one["mark"] == "cache_boundary" for one in found["result"]["worst"])


def test_a_killed_probe_scores_nothing_twice(soak: Soak, begin: Soak, fake: Fakes, plain: Fake, tmp_path: Path) -> None:
    """SIGKILL while it scores loses at most what is in flight; too few tokens are exit 3, not a pass."""
    a_run(soak, fake("--corrupt", "0"), tokens=100)
    told = ("--lossless", "--plain", plain.url, "--generation-config", "none", "--into", "probe", "--in-flight", "1")
    command = begin("probe", "run", *told)
    path = tmp_path / "probe" / "candidate-by-server.jsonl"
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 3, what="two answers scored")
    command.signal(signal.SIGKILL)
    command.wait()
    before = scored(tmp_path / "probe")[: path.read_bytes().count(b"\n") - 1]
    after = soak("probe", "run", *told, "--json")
    assert after.code == 3, after.err
    assert after.json["result"]["result"] == "not enough tokens"
    lines = scored(tmp_path / "probe")
    assert len(lines) == 11
    assert lines[: len(before)] == before
    assert after.json["cost"]["answers"] == 11 - len(before)


def refused(command: Command, code: int, words: str) -> None:
    """Check that a command ended with this error."""
    assert command.code == code, command.err
    assert words in " ".join(command.error_lines())


def test_what_cannot_be_trusted_or_known_is_told(soak: Soak, fake: Fakes, plain: Fake) -> None:
    """No plain server, one that speculates, one that scores nothing, and a law that nobody knows."""
    server, other = fake("--corrupt", "0"), fake("--rates", "none", "--speculation", "off")
    a_run(soak, server, tokens=20)
    refused(soak("probe", "run", "--lossless"), 2, "nobody to score")
    refused(soak("probe", "--lossless"), 2, "not clear which turns")
    refused(soak("probe", "run", "--lossless", "--arm", "baseline"), 2, "no arm baseline")
    refused(probe(soak, server, "run"), 2, "runs with speculation")
    refused(probe(soak, other, "run"), 5, "does not give")
    unknown: Any = soak("probe", "run", "--lossless", "--plain", plain.url, "--json")
    assert unknown.code == 3
    assert "top_k left to the server" in unknown.json["unscored"][0]["reason"]
    assert "--generation-config" in unknown.json["notes"][0]

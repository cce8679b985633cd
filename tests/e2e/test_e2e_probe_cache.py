"""`soak probe --cache` through the command line, against servers whose cache is known to be right or stale."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

TURN = {
    "schema": "soak.case/1",
    "name": "talk",
    "messages": [
        {"role": role, "content": f"{role} {number}: " + "what the reader module does with an empty file. " * 12}
        for number, role in enumerate(["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"])
    ],
}


def probed(soak: Soak, server: Fake, folder: Path, kinds: str, code: int, *more: str) -> dict[str, Any]:
    """Probe the turn above and return the document, after checking the exit code."""
    (folder / "turn.json").write_text(json.dumps(TURN))
    command = soak("probe", "--turn-file", "turn.json", "--target", server.url, "--cache", kinds, "--into", "probe",
                   "--prefixes", "4", "--json", *more)  # fmt: skip
    assert command.code == code, command.err
    found: dict[str, Any] = command.json
    return found


def test_a_right_cache_shows_nothing(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Every probe meets the cache, every answer is the cold one, and the bound is that of one conversation."""
    server = fake("--rates", "none")
    found = probed(soak, server, tmp_path, "all", 0)
    assert found["result"] == "nothing found"
    assert found["hits"] == len(found["probes"]) == 4 + 4 + 8
    assert {probe["verdict"] for probe in found["probes"]} == {"same"}
    assert found["floor"] == 0.0
    assert found["bound"] == pytest.approx(0.95)
    planned = probed(soak, server, tmp_path, "all", 0, "--plan")
    assert planned["kept"] == planned["requests"] > 0
    assert probed(soak, server, tmp_path, "all", 0, "--max-requests", "1")["probes"] == found["probes"]


@pytest.mark.parametrize("kind", ["salted", "aba", "reprobe"])
def test_a_stale_cache_is_named(soak: Soak, fake: Fakes, tmp_path: Path, kind: str) -> None:
    """A server that answers otherwise from deep hits has a cache fault, and shorter hits are not blamed."""
    found = probed(soak, fake("--rates", "none", "--stale-from", "900"), tmp_path, kind, 1)
    assert found["result"] == "cache fault"
    assert found["text"].startswith("cache fault: ")
    for probe in found["probes"]:
        assert (probe["verdict"] == "fault") == (probe["cached_tokens"] >= 900), probe
    if kind == "salted":
        assert found["shortest"] == min(p["messages"] for p in found["probes"] if p["cached_tokens"] >= 900)


def test_no_cache_is_no_evidence(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Without a cache there is nothing to probe, and unknown probes are refused: both are told before any verdict."""
    server = fake("--rates", "none", "--prefix-cache", "off")
    (tmp_path / "turn.json").write_text(json.dumps(TURN))
    arguments = ("probe", "--turn-file", "turn.json", "--target", server.url)
    command = soak(*arguments, "--cache", "all")
    assert command.code == 2
    assert "no cache to probe" in command.err
    assert "no cache probe 'some'" in soak(*arguments, "--cache", "some").err

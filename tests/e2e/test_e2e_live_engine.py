"""Live replay on the embedded local build: a real model's own answers carry the conversations on."""

from collections.abc import Callable

import pytest
from rigs.cli import Command

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_live_replay_on_the_local_build(begin: Callable[..., Command], engine_url: str) -> None:
    """Every conversation of the smoke corpus comes to an end of a known kind, within the turns that it may have."""
    command = begin(
        "run", "--scenario", "smoke", "--set", "replay=live", "--set", "sampling.max_tokens=48", "--set",
        "live.max_turns=1", "--target", engine_url, "--run", "run", "--json",
    )  # fmt: skip
    command.wait(600)
    (arm,) = command.json["arms"].values()
    found = arm["conversations"]
    assert found["begun"] == found["ended"] == 3
    assert set(found["reasons"]) <= {
        "answered", "answered_early", "record_over", "loop", "max_turns", "context_full", "error",
    }  # fmt: skip
    assert 3 <= arm["turns"]["finished"] <= 11
    assert command.json["state"] == "complete"

"""What an import gives can be replayed: every turn is sent with its own prefix and ends once, trees included."""

from pathlib import Path
from typing import Any

import pytest
from fakes import Ask, FakeServer, Script, one
from rigs.replaying import Rig, scenario
from rigs.transcripts import lay_out

from soak.facts import text_of
from soak.importers import Import


@pytest.mark.parametrize("name", ["agentperf_local.jsonl", "swe_agent_1x.traj", "claude_code.jsonl", "weka.json"])
async def test_every_turn_of_a_tree_is_sent_with_its_own_prefix(name: str, tmp_path: Path) -> None:
    """The server sees, turn by turn, exactly the messages of each turn's prefix, and each turn has one end."""
    episodes = list(Import([lay_out(name, tmp_path)]).episodes())
    expected = sorted(
        [text_of(message.content) for message in episode.prefix(turn)] for episode in episodes for turn in episode.turns
    )
    bodies: list[dict[str, Any]] = []

    def policy(ask: Ask) -> Script:
        bodies.append(ask.body)
        return answer(ask)

    answer = one("none")
    rig = Rig(tmp_path / "run", scenario(), episodes)
    async with FakeServer(policy) as server:
        await rig.sit({"candidate": server})
    rig.assert_all_done()
    sent = sorted([text_of(message.get("content")) for message in body["messages"]] for body in bodies)
    assert sent == expected

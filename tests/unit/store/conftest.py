"""Material for run folders."""

from pathlib import Path
from typing import Any

import pytest

from soak.facts import (
    ArmCard,
    Build,
    CorpusCard,
    Judgement,
    Manifest,
    Message,
    Observation,
    Record,
    Started,
    TurnKey,
    make_episode,
)
from soak.store import RunFolder


def make_manifest(**changes: Any) -> Manifest:
    return Manifest(
        **{
            "soak_version": "0.1.0",
            "created_at": 1.0,
            "scenario": {"name": "smoke"},
            "given": {"minutes": 5},
            "seed": 7,
            "corpus": CorpusCard(name="smoke", path="transcripts/smoke", digest="sha256:0", episodes=1, turns=3),
            "arms": (ArmCard(name="candidate", build=Build(model="m", target="http://127.0.0.1:1")),),
            "plan_digest": "sha256:1",
            **changes,
        }
    )


class Maker:
    """Makes facts that differ by their number."""

    manifest = staticmethod(make_manifest)

    @staticmethod
    def key(turn: int, episode: str = "e", arm: str = "a") -> TurnKey:
        return TurnKey(episode=episode, turn=turn, pass_=0, arm=arm)

    def started(self, turn: int, start: int = 0) -> Started:
        return Started(
            key=self.key(turn), start=start, at=float(turn), seed=turn, prefix="sha256:p", request="sha256:r"
        )

    def finished(self, turn: int, content: str = "answer") -> Record:
        key = self.key(turn)
        observation = Observation(key=key, started_at=float(turn), ending="complete", max_tokens=9, content=content)
        judgement = Judgement(class_="ok", reason="fine")
        return Record(key=key, outcome="finished", at=float(turn), observation=observation, judgement=judgement)

    def ended(self, turn: int, outcome: Any = "indeterminate", reason: str = "stopped") -> Record:
        return Record(key=self.key(turn), outcome=outcome, at=float(turn), reason=reason)

    @staticmethod
    def episode(tools: tuple[dict[str, Any], ...] = ({"type": "function"},)) -> Any:
        roles = ["system", "user", "assistant", "tool", "assistant"]
        messages = [Message(role=role, content=f"{role} {i}") for i, role in enumerate(roles)]  # type: ignore[arg-type]
        return make_episode("e", messages, tools=tools)


@pytest.fixture
def make() -> Maker:
    return Maker()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", make_manifest())

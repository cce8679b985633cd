"""Faults that need a setting: made only where the engine has it on, or where others are in flight."""

from collections.abc import Callable, Mapping, Sequence

from fakes.engine import FakeEngine
from fakes.faults import Ask
from fakes.policy import Policy
from fakes.script import Script

NEEDS: Mapping[str, Callable[[FakeEngine], bool]] = {
    "speculation": lambda engine: engine.speculation == "on",
    "prefix_cache": lambda engine: engine.prefix_cache == "on",
    "concurrency": lambda engine: engine.running > 0,
}


def needing(engine: FakeEngine, needs: Sequence[str], faulty: Policy, sane: Policy) -> Policy:
    """Return `faulty` where all `needs` are met at the moment of asking, `sane` otherwise."""

    def policy(ask: Ask) -> Script:
        return faulty(ask) if all(NEEDS[name](engine) for name in needs) else sane(ask)

    return policy

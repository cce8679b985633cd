"""What follows from the scenario's seed: request seeds, salts, shuffles and the plan's digest. All by SHA-256."""

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from soak.facts import Scenario, TurnKey, canonical, digest_of
from soak.facts.scenario import SaltMode

_SEED_MAX = 2**31 - 1


def number_from(*parts: str | int) -> int:
    """Return a 256-bit number that depends on every part and on their borders."""
    return int.from_bytes(hashlib.sha256(canonical(parts)).digest(), "big")


def chance(*parts: str | int) -> float:
    """Return a number of [0, 1) that depends on every part and on their borders."""
    return (number_from(*parts) >> 203) / 2**53


def seed_for(scenario_seed: int, key: TurnKey) -> int:
    """Return the request seed of a turn, from 1 to 2³¹ - 1: the same for both arms, another for every other turn."""
    return 1 + number_from("seed", scenario_seed, key.episode, key.turn, key.pass_) % _SEED_MAX


def salt_for(mode: SaltMode, seed: int, episode: str, pass_: int) -> str | None:
    """
    Return the few characters to put at the head of the system prompt, such as "[run 3f9a01c2]"; None without salt.

    pass: one salt for all conversations of a pass, so that they still share prefixes. conversation: one for each.
    """
    if mode == "none":
        return None
    number = number_from("salt", seed, pass_, episode if mode == "conversation" else "")
    return f"[run {number % 2**32:08x}]"


def plan_digest(
    scenario: Scenario,
    corpus_digest: str,
    seed: int,
    arms: Sequence[str],
    sampling: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> str:
    """
    Return `sha256:<hex>` over all that decides what a run sends and how it is judged.

    `sampling` has the fields of arms that are asked otherwise than the scenario says, by arm.
    """
    own = [{arm: dict(fields) for arm, fields in sampling.items()}] if sampling else []
    return digest_of(["soak.plan/1", scenario, corpus_digest, seed, list(arms), *own])

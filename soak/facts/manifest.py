"""What was run: enough to judge, resume and repeat it on another machine."""

from typing import Any, Literal

import msgspec

from soak.facts.build import Build, Capabilities
from soak.facts.build_file import NamedBuild
from soak.facts.card import EnvironmentCard


class CorpusCard(msgspec.Struct, frozen=True, kw_only=True):
    """Name, place, hash (over the episodes' digests), and size of the corpus used."""

    name: str
    path: str
    digest: str
    episodes: int
    turns: int


class ArmCard(msgspec.Struct, frozen=True, kw_only=True):
    """
    One side of a comparison: its name, build, what the target can do, and how tool calls are sent to it.

    `given_target` is what the user named: a URL without credentials, or a build. `recipe` is the build file as it was
    carried out, None for a URL; `environment` is what was really running (None: not learnt, or not started yet).
    `sampling` holds the fields of the scenario's sampling that this arm was asked with in another way.
    """

    name: str
    build: Build
    given_target: str = ""
    tool_mode: Literal["native", "text"] = "native"
    capabilities: Capabilities | None = None
    recipe: NamedBuild | None = None
    environment: EnvironmentCard | None = None
    sampling: dict[str, Any] = {}


class ShapesCard(msgspec.Struct, frozen=True, kw_only=True):
    """
    What load shapes and canaries make of one pass (the first), for each arm.

    `pass_turns`: its turns in all. `siblings`: trips through each of `overlapped` episodes. `aborted`: turns marked to
    be closed by us. `offsets`: turns by the place of their prompt's end. `recall`: turns that ask for the secret word.
    `said` tells it all in sentences.
    """

    pass_turns: int
    siblings: int = 1
    overlapped: int = 0
    aborted: int = 0
    offsets: dict[str, int] = {}
    recall: int = 0
    said: tuple[str, ...] = ()


ArmOrder = Literal["together", "sequential", "ABA"]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """
    What was run. `scenario` is the resolved scenario as plain JSON; `given` holds what was said on the command line
    (values differing from the scenario file), kept apart from what was defaulted. `plan_digest` covers scenario, corpus
    and seed. `classifier` is the fingerprint of the classifiers that judged the turns as they ended (None: unknown).
    `shapes`: what the load does besides replaying, None for nothing.
    `arm_order`: whether the arms ran at the same time, one after the other, or the first once more at the end (ABA).
    No field ever holds an API key.
    """

    schema: str = "soak.run/1"
    soak_version: str
    created_at: float
    scenario: dict[str, Any]
    given: dict[str, Any]
    seed: int
    corpus: CorpusCard
    arms: tuple[ArmCard, ...]
    plan_digest: str
    environment: dict[str, str] = {}
    classifier: str | None = None
    arm_order: ArmOrder = "together"
    shapes: ShapesCard | None = None

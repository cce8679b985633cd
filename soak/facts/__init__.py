"""
The nouns every room speaks: immutable values and their JSON form.

May touch: nothing. No I/O, no clock, no randomness; imports only `soak.errors` and msgspec (the codec).
Every value is a frozen `msgspec.Struct`; times are seconds (`_s`), milliseconds (`_ms`) or UTC epoch seconds (`_at`).
"""

from soak.facts.build import Build, Capabilities
from soak.facts.chunk import Chunk, ToolCallDelta
from soak.facts.codec import canonical, clean, decode, digest_of, encode
from soak.facts.comparison import ClassComparison, Comparison, Discordant, Events, WallClock
from soak.facts.episode import (
    EPISODE_SCHEMA,
    Episode,
    Message,
    Node,
    ToolCall,
    Turn,
    characters,
    depths,
    episode_from_json,
    episode_to_json,
    estimate_tokens,
    make_episode,
    text_of,
)
from soak.facts.finding import (
    CLASSES,
    Finding,
    Judgement,
    Signal,
    TurnClass,
)
from soak.facts.history import Event, Record, Started
from soak.facts.key import TurnKey
from soak.facts.manifest import ArmCard, CorpusCard, Manifest
from soak.facts.observation import Attempt, Ending, Logprob, Observation, Usage
from soak.facts.sample import EngineSample
from soak.facts.scenario import Budget, Deadlines, Expect, Load, Retries, Sampling, Scenario, ThinkTime, Thresholds
from soak.facts.summary import (
    ArmSummary,
    PlanCard,
    PrefixCache,
    Quantiles,
    Speculation,
    Summary,
    TokenCounts,
    TurnCounts,
    WorstTurn,
)
from soak.facts.threshold import COMPARATORS, Comparator, Threshold, evaluate, measured

__all__ = [
    "CLASSES",
    "COMPARATORS",
    "EPISODE_SCHEMA",
    "ArmCard",
    "ArmSummary",
    "Attempt",
    "Budget",
    "Build",
    "Capabilities",
    "Chunk",
    "ClassComparison",
    "Comparator",
    "Comparison",
    "CorpusCard",
    "Deadlines",
    "Discordant",
    "Ending",
    "EngineSample",
    "Episode",
    "Event",
    "Events",
    "Expect",
    "Finding",
    "Judgement",
    "Load",
    "Logprob",
    "Manifest",
    "Message",
    "Node",
    "Observation",
    "PlanCard",
    "PrefixCache",
    "Quantiles",
    "Record",
    "Retries",
    "Sampling",
    "Scenario",
    "Signal",
    "Speculation",
    "Started",
    "Summary",
    "ThinkTime",
    "Threshold",
    "Thresholds",
    "TokenCounts",
    "ToolCall",
    "ToolCallDelta",
    "Turn",
    "TurnClass",
    "TurnCounts",
    "TurnKey",
    "Usage",
    "WallClock",
    "WorstTurn",
    "canonical",
    "characters",
    "clean",
    "decode",
    "depths",
    "digest_of",
    "encode",
    "episode_from_json",
    "episode_to_json",
    "estimate_tokens",
    "evaluate",
    "make_episode",
    "measured",
    "text_of",
]

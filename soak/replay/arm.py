"""One side of the run as the engine sees it."""

from dataclasses import dataclass
from typing import Literal

from soak.facts import Capabilities
from soak.replay.fit import Meter
from soak.replay.gate import Gate
from soak.replay.ports import StreamClient


@dataclass(kw_only=True)
class Arm:
    """
    A client, a gate, a meter for prompt lengths, and what the target can do; `tool_mode` is resolved.

    `block_tokens`: the block of its prefix cache, None where it is not known.
    """

    name: str
    client: StreamClient
    gate: Gate
    meter: Meter
    capabilities: Capabilities
    tool_mode: Literal["native", "text"]
    block_tokens: int | None = None

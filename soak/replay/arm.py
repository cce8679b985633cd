"""One side of the run as the engine sees it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from soak.facts import Capabilities, Sampling
from soak.replay.fit import Meter
from soak.replay.gate import Gate
from soak.replay.ports import StreamClient


@dataclass(kw_only=True)
class Arm:
    """
    A client, a gate, a meter for prompt lengths, and what the target can do; `tool_mode` is resolved.

    `around` is opened around the sending of each turn: whoever wants to look at the engine before and after it.
    `block_tokens`: the block of its prefix cache, None where it is not known.
    `sampling` is what it is asked with, if that is not the scenario's.
    """

    name: str
    client: StreamClient
    gate: Gate
    meter: Meter
    capabilities: Capabilities
    tool_mode: Literal["native", "text"]
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    block_tokens: int | None = None
    sampling: Sampling | None = None

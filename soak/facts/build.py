"""What is under test, as far as it is known."""

from typing import Any

import msgspec


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """
    Engine, version, model, speculative config, target URL and resolved settings of one arm.

    `speculative` is None if speculation is off or unknown; `settings["speculation"]` / `["prefix_cache"]` hold
    True, False or are absent (unknown). `target` never contains credentials.
    """

    engine: str | None = None
    version: str | None = None
    model: str
    speculative: dict[str, Any] | None = None
    target: str
    settings: dict[str, Any] = {}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a target can do, found by asking it before the run; None where it could not be found out."""

    model: str
    models: tuple[str, ...] = ()
    engine: str | None = None
    version: str | None = None
    context_tokens: int | None = None
    metrics: bool = False
    speculation_on: bool | None = None
    prefix_cache_on: bool | None = None
    token_ids: bool = False
    logprobs: bool = False
    native_tools: bool = False
    counts_tokens: bool = False
    cached_tokens: bool | None = None
    notes: tuple[str, ...] = ()

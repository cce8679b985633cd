"""One reading of an engine's metrics page, in our own names; None where the engine does not export the counter."""

import msgspec


class EngineSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Counters (monotone until a restart) and gauges of one arm at `at` (UTC epoch seconds).

    `accepted_per_position[i]` counts accepted draft tokens at position i. `success` maps finish reason to requests,
    `corrupted` counts requests with NaN in their logits. `process_start_at` tells restarts apart. The page was asked
    for at `asked_at`: what had happened by then is in it. `speculation_on` and `prefix_cache_on` are what the page says
    of the configuration, None if it does not say.
    """

    arm: str
    at: float
    asked_at: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    corrupted: float | None = None
    success: dict[str, float] | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    process_start_at: float | None = None
    speculation_on: bool | None = None
    prefix_cache_on: bool | None = None

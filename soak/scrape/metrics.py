"""
Which metric means what, engine by engine.

vLLM (V1 names; the names of earlier releases behind them):

    vllm:spec_decode_num_{drafts,draft_tokens,accepted_tokens}_total        exported only where speculation is on
    vllm:spec_decode_num_accepted_tokens_per_pos_total{position}
    vllm:prefix_cache_{queries,hits}_total, earlier vllm:gpu_prefix_cache_{queries,hits}_total          in tokens
    vllm:{prompt,generation}_tokens_total, vllm:num_preemptions_total, vllm:request_success_total{finished_reason}
    vllm:corrupted_requests_total       requests with NaN in their logits, counted as they end; exported only where the
                                        server runs with VLLM_COMPUTE_NANS_IN_LOGITS=1
    vllm:num_requests_{running,waiting}, vllm:kv_cache_usage_perc, earlier vllm:gpu_cache_usage_perc    a fraction
    vllm:cache_config_info{enable_prefix_caching}

SGLang: prompt, generation and cached tokens are counted when a request ends, so cached/prompt tokens are hits and
queries of the prefix cache. Its speculation metrics are gauges of the last moments (sglang:spec_accept_length) and
say nothing about a span of time; they are left out, and so is sglang:cache_hit_rate.

Counters may come with or without `_total`. With several engines behind one page (data parallel), counters and queue
lengths are added up; KV usage is that of the fullest engine, the process start that of the youngest process.
"""

from collections.abc import Iterable, Mapping

from soak.facts import EngineSample
from soak.scrape.page import Page, Series

MAX_PAGE_CHARS = 8 * 1024 * 1024
MAX_PAGE_LINES = 200_000
MAX_POSITIONS = 64
MAX_REASONS = 64

_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "drafts": ("vllm:spec_decode_num_drafts",),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens",),
    "prefix_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "sglang:prompt_tokens"),
    "prefix_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens", "sglang:prompt_tokens"),
    "generation_tokens": ("vllm:generation_tokens", "sglang:generation_tokens"),
    "preemptions": ("vllm:num_preemptions",),
    "corrupted": ("vllm:corrupted_requests",),
}
_QUEUES: Mapping[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
}
_KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_PER_POSITION = ("vllm:spec_decode_num_accepted_tokens_per_pos",)
_SUCCESS = ("vllm:request_success",)
_CACHE_CONFIG = ("vllm:cache_config_info",)
_PROCESS_START = ("process_start_time_seconds",)

# Ranks of one engine that report the same thing; a data-parallel rank is an engine of its own.
_SAME_ENGINE_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank"})


def _both(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(spelling for name in names for spelling in (f"{name}_total", name))


_WANTED = frozenset(
    [spelling for names in (*_COUNTERS.values(), _PER_POSITION, _SUCCESS) for spelling in _both(names)]
    + [name for names in (*_QUEUES.values(), _KV_USAGE, _CACHE_CONFIG, _PROCESS_START) for name in names]
)


def parse_metrics(text: str, *, arm: str, at: float, asked_at: float | None = None) -> EngineSample:
    """
    Return what a metrics page says, for `arm`, asked for at `asked_at` and read at `at` (UTC epoch seconds).

    What the page does not have, or has in a line that cannot be read, is None and never 0: half of a sum would look
    like a restart. Any text is accepted; a page above 8 Mi characters or 200,000 lines is not
    read and gives a sample in which all is None.
    """
    if len(text) > MAX_PAGE_CHARS or text.count("\n") > MAX_PAGE_LINES:
        return EngineSample(arm=arm, at=at, asked_at=asked_at)
    page = Page(text, _WANTED)
    counters = {field: _total(page.series(*_both(names))) for field, names in _COUNTERS.items()}
    queues = {field: _total(page.series(*names)) for field, names in _QUEUES.items()}
    return EngineSample(
        arm=arm,
        at=at,
        asked_at=asked_at,
        **counters,
        **queues,
        accepted_per_position=_per_position(page.series(*_both(_PER_POSITION))),
        success=_by_reason(page.series(*_both(_SUCCESS))),
        kv_usage=_largest(page.series(*_KV_USAGE)),
        process_start_at=_largest(page.series(*_PROCESS_START)),
        speculation_on=_speculation_on(text),
        prefix_cache_on=_prefix_cache_on(page.series(*_CACHE_CONFIG)),
    )


def _total(series: Series | None) -> float | None:
    """Add up engines; of ranks of one engine, which tell the same, take the largest."""
    if series is None:
        return None
    engines: dict[frozenset[tuple[str, str]], float] = {}
    for labels, value in series:
        engine = frozenset(item for item in labels.items() if item[0] not in _SAME_ENGINE_LABELS)
        engines[engine] = max(value, engines.get(engine, 0.0))
    return sum(engines.values())


def _largest(series: Series | None) -> float | None:
    return None if series is None else max(value for _, value in series)


def _per_position(series: Series | None) -> tuple[float, ...] | None:
    if series is None:
        return None
    counts: dict[int, float] = {}
    for labels, value in series:
        position = labels.get("position", "")
        if not (position.isascii() and position.isdecimal() and len(position) < 4 and int(position) < MAX_POSITIONS):
            return None
        counts[int(position)] = counts.get(int(position), 0.0) + value
    return tuple(counts.get(position, 0.0) for position in range(max(counts) + 1))


def _by_reason(series: Series | None) -> dict[str, float] | None:
    if series is None:
        return None
    counts: dict[str, float] = {}
    for labels, value in series:
        reason = labels.get("finished_reason")
        if reason is None or len(reason) > 64 or (len(counts) >= MAX_REASONS and reason not in counts):
            return None
        counts[reason] = counts.get(reason, 0.0) + value
    return counts


def _speculation_on(text: str) -> bool | None:
    """Whether the page has samples of vLLM's speculation counters; None for a page that is not vLLM's."""
    page = "\n" + text
    if "\nvllm:spec_decode_" in page:
        return True
    return False if "\nvllm:" in page else None


def _prefix_cache_on(series: Series | None) -> bool | None:
    said = {labels.get("enable_prefix_caching", "").lower() for labels, _ in series or ()}
    return {"true": True, "false": False}.get(said.pop()) if len(said) == 1 else None

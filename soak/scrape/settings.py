"""
What an engine tells of its own settings, in our own names (`EnvironmentCard`).

vLLM: the labels of vllm:cache_config_info, and the JSON of /server_info?config_format=json (its development mode).
SGLang: /get_server_info (its server arguments, resolved). llama.cpp: /props. Values are text; what is not told is
absent.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from soak.scrape.page import Page

VALUE_CHARS = 300
_INFO = "vllm:cache_config_info"

_LABELS = {
    "block_size": "block_size",
    "cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "prefix_caching",
    "prefix_caching_hash_algo": "prefix_hash",
    "mamba_cache_mode": "mamba_cache_mode",
    "mamba_block_size": "mamba_block_size",
    "mamba_cache_dtype": "mamba_cache_dtype",
    "kv_cache_memory_bytes": "kv_cache_bytes",
    "kv_cache_size_tokens": "kv_cache_tokens",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "num_gpu_blocks": "cache_blocks",
}
_VLLM: Mapping[str, Mapping[str, str]] = {
    "model_config": {
        "dtype": "dtype",
        "max_model_len": "context_tokens",
        "quantization": "quantization",
        "revision": "model_revision",
        "enforce_eager": "eager",
        "seed": "engine_seed",
        "runner_type": "runner",
    },
    "cache_config": _LABELS,
    "scheduler_config": {
        "async_scheduling": "async_scheduling",
        "enable_chunked_prefill": "chunked_prefill",
        "max_num_batched_tokens": "max_batched_tokens",
        "max_num_seqs": "max_sequences",
        "policy": "scheduling_policy",
    },
    "parallel_config": {
        "tensor_parallel_size": "tensor_parallel",
        "pipeline_parallel_size": "pipeline_parallel",
        "data_parallel_size": "data_parallel",
        "enable_expert_parallel": "expert_parallel",
    },
    "attention_config": {"backend": "attention_backend"},
    "compilation_config": {"mode": "compilation_mode", "cudagraph_mode": "cudagraph_mode"},
}
_SGLANG = {
    "dtype": "dtype",
    "kv_cache_dtype": "kv_cache_dtype",
    "attention_backend": "attention_backend",
    "page_size": "block_size",
    "chunked_prefill_size": "chunked_prefill",
    "max_running_requests": "max_sequences",
    "max_prefill_tokens": "max_batched_tokens",
    "context_length": "context_tokens",
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
    "dp_size": "data_parallel",
    "disable_radix_cache": "prefix_caching_off",
    "disable_overlap_schedule": "async_scheduling_off",
    "speculative_algorithm": "speculative",
    "speculative_num_steps": "speculative_steps",
    "speculative_num_draft_tokens": "speculative_tokens",
    "quantization": "quantization",
    "revision": "model_revision",
    "model_path": "model_path",
}
_LLAMA = {"model_path": "model_path", "build_info": "engine_version", "total_slots": "max_sequences"}


def settings_on_page(page: str) -> dict[str, str]:
    """Return what a metrics page tells of the engine's settings; where engines behind one page differ, all values."""
    found: dict[str, list[str]] = {}
    for labels, _ in Page(page, {_INFO}).series(_INFO) or ():
        for label, name in _LABELS.items():
            value = _plain(labels.get(label))
            if value is not None and value not in found.setdefault(name, []):
                found[name].append(value)
    return {name: " and ".join(values)[:VALUE_CHARS] for name, values in found.items() if values}


def settings_of_vllm(info: Any) -> dict[str, str]:
    """Return what vLLM's /server_info tells; nothing if it is not that. Any JSON value is accepted."""
    config = info.get("vllm_config") if isinstance(info, dict) else None
    if not isinstance(config, dict):
        return {}
    found = {name: text for section, names in _VLLM.items() for name, text in _picked(config.get(section), names)}
    speculative = config.get("speculative_config")
    if isinstance(speculative, dict):
        told = {"method", "num_speculative_tokens", "model", "prompt_lookup_min", "prompt_lookup_max"}
        found["speculative"] = ", ".join(
            f"{name} {_plain(value)}" for name, value in sorted(speculative.items()) if name in told and _plain(value)
        )[:VALUE_CHARS]
    return found


def settings_of_sglang(info: Any) -> dict[str, str]:
    """Return what SGLang's /get_server_info tells; nothing if it is not that."""
    return dict(_picked(info, _SGLANG))


def settings_of_llama(props: Any) -> dict[str, str]:
    """Return what llama.cpp's /props tells; nothing if it is not that."""
    return dict(_picked(props, _LLAMA))


def _picked(section: Any, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if isinstance(section, dict):
        for key, name in names.items():
            value = _plain(section.get(key))
            if value is not None:
                yield name, value


def _plain(value: Any) -> str | None:
    """Return a scalar as a word of ours; None for nothing, for Python's None, and for anything deeper."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        return None
    text = str(value).removeprefix("torch.").strip()[:VALUE_CHARS]
    return {"None": None, "": None, "True": "true", "False": "false"}.get(text, text)

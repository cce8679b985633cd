"""What engines tell of their settings, in our own names."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.scrape import settings_of_llama, settings_of_sglang, settings_of_vllm, settings_on_page

PAGE = Path(__file__).with_name("vllm_page.txt")


def test_a_page_of_vllm_tells_its_cache() -> None:
    """The labels of vllm:cache_config_info come out as block size, cache type and prefix caching."""
    found = settings_on_page(PAGE.read_text())
    assert found == {
        "block_size": "16",
        "kv_cache_dtype": "auto",
        "prefix_caching": "true",
        "cache_blocks": "2048",
    }


def test_engines_that_differ_behind_one_page_are_both_told() -> None:
    """Two data-parallel engines with different block counts are told with both values; None is not told."""
    row = 'vllm:cache_config_info{{engine="{0}",block_size="16",mamba_cache_mode="None",num_gpu_blocks="{1}"}} 1.0\n'
    assert settings_on_page(row.format(0, 100) + row.format(1, 90)) == {
        "block_size": "16",
        "cache_blocks": "100 and 90",
    }


def test_vllm_tells_what_it_resolved() -> None:
    """From /server_info come the resolved settings, not those that are None or deeper than a scalar."""
    info = {
        "vllm_config": {
            "model_config": {"dtype": "torch.bfloat16", "max_model_len": 8192, "quantization": None},
            "scheduler_config": {"async_scheduling": False, "max_num_batched_tokens": 2048, "policy": {"a": 1}},
            "parallel_config": {"tensor_parallel_size": 2},
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "draft": {"x": 1}},
        }
    }
    assert settings_of_vllm(info) == {
        "dtype": "bfloat16",
        "context_tokens": "8192",
        "async_scheduling": "false",
        "max_batched_tokens": "2048",
        "tensor_parallel": "2",
        "speculative": "method ngram, num_speculative_tokens 3",
    }


def test_a_real_vllm_tells_all_that_a_card_needs() -> None:
    """From /server_info of vLLM 0.32.0 come the settings that answers and times depend on, resolved, not as given."""
    found = settings_of_vllm(json.loads(PAGE.with_name("vllm_server_info.json").read_text()))
    assert found["block_size"] == "128"
    assert found["speculative"].startswith("method ngram")
    assert {name: found[name] for name in ("async_scheduling", "chunked_prefill", "prefix_caching", "eager")} == {
        "async_scheduling": "false",
        "chunked_prefill": "false",
        "prefix_caching": "true",
        "eager": "true",
    }
    assert {"dtype", "kv_cache_dtype", "mamba_cache_mode", "max_batched_tokens", "tensor_parallel"} <= found.keys()


def test_other_engines_tell_theirs() -> None:
    """SGLang's server arguments and llama.cpp's properties are put into the same names."""
    assert settings_of_sglang({"tp_size": 4, "page_size": 1})["tensor_parallel"] == "4"
    assert settings_of_llama({"total_slots": 4, "default_generation_settings": {}}) == {"max_sequences": "4"}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["vllm_config", "cache_config", "model_config", "speculative_config", "dtype", "x"]),
            inner,
            max_size=4,
        ),
    ),
)


@settings(max_examples=100, deadline=None)
@given(value=JSON)
def test_any_answer_is_taken(value: Any) -> None:
    """Whatever a server answers, the result is short text by name."""
    for read in (settings_of_vllm, settings_of_sglang, settings_of_llama):
        assert all(isinstance(text, str) and len(text) <= 300 for text in read(value).values())

"""Reading metrics pages: vLLM of several ages, SGLang, and text that is none."""

from pathlib import Path

import msgspec
import pytest

from soak.facts import EngineSample
from soak.scrape import MAX_PAGE_CHARS, parse_metrics

VLLM = (Path(__file__).parent / "vllm_page.txt").read_text()
NOTHING = EngineSample(arm="a", at=1.0)


def read(text: str) -> EngineSample:
    return parse_metrics(text, arm="a", at=1.0)


def test_a_vllm_page_of_two_engines_is_added_up() -> None:
    """Counters and queues are sums over engines, KV usage is the fullest engine's, configuration is read."""
    assert read(VLLM) == EngineSample(
        arm="a",
        at=1.0,
        drafts=40,
        draft_tokens=120,
        accepted_tokens=60,
        accepted_per_position=(30, 20, 10),
        prefix_queries=1500,
        prefix_hits=700,
        prompt_tokens=1650,
        generation_tokens=100,
        preemptions=2,
        success={"stop": 9, "length": 1, "abort": 0},
        running=4,
        waiting=2,
        kv_usage=0.75,
        process_start_at=1.76454e9,
        speculation_on=True,
        prefix_cache_on=True,
    )


def test_counters_without_total_are_the_same_counters() -> None:
    """A page whose counters lack the suffix `_total` gives the same sample."""
    assert read(VLLM.replace("_total{", "{")) == read(VLLM)


def test_windows_line_ends_and_timestamps_change_nothing() -> None:
    """Carriage returns and a timestamp behind the value are accepted."""
    assert read(VLLM.replace("\n", "\r\n")) == read(VLLM)
    assert read("vllm:prompt_tokens_total 5 1764540000000").prompt_tokens == 5


def test_older_names_are_understood_and_newer_ones_win() -> None:
    """The gpu_ names are read where they stand alone, and not added to the newer ones where both are exported."""
    old = "vllm:gpu_prefix_cache_queries_total 10\nvllm:gpu_prefix_cache_hits_total 4\nvllm:gpu_cache_usage_perc 0.5\n"
    new = "vllm:prefix_cache_queries_total 20\nvllm:prefix_cache_hits_total 8\nvllm:kv_cache_usage_perc 0.1\n"
    sample = read(old)
    assert (sample.prefix_queries, sample.prefix_hits, sample.kv_usage) == (10, 4, 0.5)
    sample = read(old + new)
    assert (sample.prefix_queries, sample.prefix_hits, sample.kv_usage) == (20, 8, 0.1)


def test_vllm_without_speculation_says_off_and_counts_nothing() -> None:
    """A vLLM page without the spec_decode family: speculation is off, its counters are None and not 0."""
    page = "\n".join(line for line in VLLM.splitlines() if "spec_decode" not in line)
    sample = read(page)
    assert sample.speculation_on is False
    assert (sample.drafts, sample.draft_tokens, sample.accepted_tokens) == (None, None, None)
    assert sample.accepted_per_position is None


def test_a_counter_at_zero_is_zero() -> None:
    """An exported counter that never moved is 0 and not None."""
    assert read("vllm:spec_decode_num_drafts_total 0.0").drafts == 0.0


def test_a_help_line_alone_exports_nothing() -> None:
    """Metadata without a sample does not make a metric known, nor speculation on."""
    sample = read("# TYPE vllm:spec_decode_num_drafts_total counter\nvllm:prompt_tokens_total 1\n")
    assert sample.drafts is None
    assert sample.speculation_on is False


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (['enable_prefix_caching="False"'], False),
        (['enable_prefix_caching="true"'], True),
        (['enable_prefix_caching="None"'], None),
        (['block_size="16"'], None),
        (['enable_prefix_caching="True",engine="0"', 'enable_prefix_caching="False",engine="1"'], None),
    ],
)
def test_prefix_caching_is_on_off_or_unknown(labels: list[str], expected: bool | None) -> None:
    """What the configuration does not say, or says twice differently, is unknown."""
    page = "\n".join(f"vllm:cache_config_info{{{text}}} 1" for text in labels)
    assert read(page).prefix_cache_on is expected


def test_sglang_counters_map_and_its_gauges_of_the_moment_do_not() -> None:
    """Tokens, cached tokens of all sources and queues are read; ranks of one engine count once; speculation unknown."""
    page = """
sglang:prompt_tokens_total{model_name="m"} 1000
sglang:generation_tokens_total{model_name="m"} 70
sglang:cached_tokens_total{model_name="m",cache_source="device"} 300
sglang:cached_tokens_total{model_name="m",cache_source="host"} 100
sglang:num_running_reqs{model_name="m",tp_rank="0",dp_rank="0"} 4
sglang:num_running_reqs{model_name="m",tp_rank="1",dp_rank="0"} 4
sglang:num_running_reqs{model_name="m",tp_rank="2",dp_rank="1"} 3
sglang:num_queue_reqs{model_name="m"} 1
sglang:token_usage{model_name="m"} 0.28
sglang:cache_hit_rate{model_name="m"} 0.4
sglang:spec_accept_length{model_name="m"} 2.9
"""
    assert read(page) == EngineSample(
        arm="a",
        at=1.0,
        prefix_queries=1000,
        prefix_hits=400,
        prompt_tokens=1000,
        generation_tokens=70,
        running=7,
        waiting=1,
        kv_usage=0.28,
    )


@pytest.mark.parametrize(
    "line",
    [
        'vllm:prompt_tokens_total{engine="1} 5',
        'vllm:prompt_tokens_total{engine="1"}',
        'vllm:prompt_tokens_total{engine="1"} five',
        'vllm:prompt_tokens_total{engine="1"} NaN',
        'vllm:prompt_tokens_total{engine="1"} +Inf',
        'vllm:prompt_tokens_total{engine="1"} -3',
        'vllm:prompt_tokens_total{engine="' + "x" * 20_000 + '"} 5',
        'vllm:prompt_tokens_total{engine="' + "\\\\" * 100 + '"} 5',
    ],
)
def test_a_bad_line_makes_its_metric_unknown_and_no_other(line: str) -> None:
    """Half of a sum would look like a restart: the metric of a line that cannot be read is None, the rest stands."""
    page = f'vllm:prompt_tokens_total{{engine="0"}} 7\n{line}\nvllm:generation_tokens_total 9\n'
    sample = read(page)
    assert sample.prompt_tokens is None
    assert sample.generation_tokens == 9


@pytest.mark.parametrize("label", ['position="x"', 'position="-1"', 'position="99999999999"', 'position="²"', 'p="1"'])
def test_positions_that_are_none_make_the_positions_unknown(label: str) -> None:
    """A per-position counter with a position that is not a small number is None; it sizes no array."""
    assert read(f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label}}} 5").accepted_per_position is None


@pytest.mark.parametrize("text", ["", "\n\n", "<html>502 Bad Gateway</html>", "{}", "\x00" * 100, "a" * 100_000])
def test_a_page_that_is_none_says_nothing(text: str) -> None:
    """Any text gives a sample; with nothing known in it all is None."""
    assert read(text) == NOTHING


def test_pages_beyond_the_limits_are_not_read() -> None:
    """A page above the limit on size or lines gives a sample that says nothing."""
    assert read("vllm:prompt_tokens_total 5\n" + "#" * MAX_PAGE_CHARS) == NOTHING
    assert read("vllm:prompt_tokens_total 5\n" * 200_001) == NOTHING


def test_more_samples_than_we_read_make_the_metric_unknown() -> None:
    """A metric with more series than the limit is None, not the sum of those that were read."""
    page = "\n".join(f'vllm:prompt_tokens_total{{engine="{i}"}} 1' for i in range(20_001))
    assert read(page).prompt_tokens is None


def test_a_sample_survives_the_codec() -> None:
    """A full sample is the same after encoding and decoding."""
    assert msgspec.json.decode(msgspec.json.encode(read(VLLM)), type=EngineSample) == read(VLLM)

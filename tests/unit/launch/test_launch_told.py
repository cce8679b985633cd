"""What is read from a server's log, its environment and the machine."""

import os
import signal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from launch_builds import scripted

from soak.launch import Prepared, prepare, start
from soak.launch.told import settings_in_log

LOG = Path(__file__).with_name("vllm_0_32.log")


def test_a_log_of_vllm_tells_the_resolved_settings() -> None:
    """From a real log of vLLM 0.32.0 come version, types, sizes and what was decided on the way."""
    found = settings_in_log(LOG.read_text())
    assert found == {
        "engine_version": "0.32.0",
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "context_tokens": "8192",
        "tensor_parallel": "1",
        "pipeline_parallel": "1",
        "data_parallel": "1",
        "eager": "true",
        "prefix_caching": "true",
        "chunked_prefill": "false",
        "load_format": "auto",
        "engine_seed": "0",
        "speculative": "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)",
        "async_scheduling": "false",
        "kv_cache_layout": "LBHNC",
        "kv_cache_tokens": "93184",
        "model_runner": "V1",
    }


def test_lines_of_a_gpu_are_read() -> None:
    """Attention backend, chunked prefill with its batch, and asynchronous scheduling are read from their lines."""
    lines = (
        "INFO Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN'].\n"
        "INFO Chunked prefill is enabled with max_num_batched_tokens=8192.\n"
        "INFO Asynchronous scheduling is enabled.\n"
    )
    assert settings_in_log(lines) == {
        "attention_backend": "FLASH_ATTN",
        "max_batched_tokens": "8192",
        "async_scheduling": "true",
    }


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300))
def test_another_log_tells_nothing_wrong(text: str) -> None:
    """Text that is no log of vLLM gives no settings, and no crash."""
    assert settings_in_log(text) == {}


def test_the_card_of_a_started_server_names_its_build_and_the_machine(ready: Prepared, tmp_path: Path) -> None:
    """A server's card holds the build's fingerprint and the processor, and no property without a value."""
    with start(ready, log_path=tmp_path / "engine.log") as server:
        card = server.card()
    assert card.entries["build"].value == f"scripted-{ready.spec.fingerprint}"
    assert card.entries["build"].source == "build"
    assert card.entries["cores"].source == "machine"
    assert all(entry.value for entry in card.entries.values())


def test_a_server_that_died_starts_again_on_its_port(cache: Path, tmp_path: Path) -> None:
    """After a death its reason and last lines are known; a restart serves at the same URL, as often as allowed."""
    with start(prepare(scripted("serve", restarts=1)), log_path=tmp_path / "engine.log") as server:
        url, first = server.url, server.pid
        assert server.death() is None
        os.kill(first, signal.SIGKILL)
        server._process.wait(10)
        death = server.death()
        assert death is not None
        assert death.code == -signal.SIGKILL
        assert any("scripted engine" in line for line in death.log_tail)
        assert server.may_restart
        server.restart()
        assert (server.url, server.restarts, server.may_restart) == (url, 1, False)
        assert server.alive()
        assert server.pid != first
    assert not server.alive()
    assert server.death() is None

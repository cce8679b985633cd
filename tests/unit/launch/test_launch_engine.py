import json
import os
import urllib.request
from pathlib import Path

import pytest
from launch_builds import gone

from soak.launch import LOCAL, RunningServer, prepare, start

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    """The embedded local build, running."""
    with start(prepare(LOCAL), log_path=tmp_path_factory.mktemp("engine") / "engine.log") as running:
        yield running


def completed(server: RunningServer, prompt: str, **sampling: object) -> dict:
    body = {"model": LOCAL.served_model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 24} | sampling
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def metric(server: RunningServer, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{"))


def test_the_real_engine_drafts(server: RunningServer) -> None:
    """Asked to repeat a file, the real engine drafts tokens by n-grams from the prompt and accepts some."""
    source = Path(__file__).read_text()[:3000]
    completed(server, f"Here is a file:\n{source}\nPrint the file again.", temperature=0, max_tokens=96)
    assert metric(server, "vllm:spec_decode_num_draft_tokens_total") > 0
    assert metric(server, "vllm:spec_decode_num_accepted_tokens_total") > 0


def test_the_real_engine_reuses_prefixes(server: RunningServer) -> None:
    """The second request with the same long prefix is answered from the prefix cache, and its usage says so."""
    prompt = "The quick brown fox jumps over the lazy dog, again. " * 30
    completed(server, prompt)
    usage = completed(server, prompt)["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 100
    assert metric(server, "vllm:prefix_cache_hits_total") > 100


def test_a_seeded_request_with_a_deep_prompt_does_not_kill_it(server: RunningServer) -> None:
    """A deep prompt with a seed, which kills this engine where prompts are prefilled in pieces, is served."""
    answer = completed(server, "word " * 4000, seed=7, temperature=1.0, max_tokens=4)
    assert answer["usage"]["prompt_tokens"] > 4000
    assert server.alive()


def test_stopping_the_real_engine_leaves_no_process(tmp_path: Path) -> None:
    """After `stop` the API server, the engine core and its worker are gone."""
    running = start(prepare(LOCAL), log_path=tmp_path / "engine.log")
    pids = group_of(running.pid)
    assert len(pids) >= 3
    running.stop()
    assert all(gone(pid, within_s=0.0) for pid in pids)


def group_of(leader: int) -> list[int]:
    """Return the pids of the leader's process group."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == leader:
                found.append(int(folder.name))
        except ProcessLookupError:
            continue
    return found

"""The fake server keeps its own promises, or the tests that stand on it prove nothing."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fakes import FAULTS, FakeEngine, FakeServer, TruthRow, one, seeded_policy
from fakes.process import FakeProcess

RATES = dict.fromkeys([name for name in FAULTS if not name.startswith(("silent", "comments_only"))], 0.02)


async def posted(url: str, seed: int | None, text: str = "hello") -> bytes:
    """Send one streamed request and return what was read until its end, be it a broken one."""
    body: dict[str, Any] = {
        "model": "fake-model",
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "max_tokens": 300,
        "stream_options": {"include_usage": True},
    }
    body.update({} if seed is None else {"seed": seed})
    read = b""
    try:
        async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=body) as answer:
            async for data in answer.content.iter_any():
                read += data
    except aiohttp.ClientError:
        return read
    return read


async def page(url: str) -> dict[str, float]:
    """Return the metrics page, name to value, labels left out."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if not line.startswith("#")]
    return {line.partition("{")[0].partition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def by_seed(rows: list[TruthRow]) -> dict[int | None, tuple[str, str]]:
    """Return fault and expected class of each seed."""
    return {row.seed: (row.fault, row.expected) for row in rows}


async def test_faults_depend_on_the_request_and_not_on_its_arrival() -> None:
    """Sent in another order and all at once, each request meets the same fault and gets the same bytes."""
    found: list[Any] = []
    for seeds in (range(60), reversed(range(60))):
        async with FakeServer(seeded_policy(3, RATES)) as server:
            order = list(seeds)
            answers = await asyncio.gather(*(posted(server.url, seed) for seed in order))
            found.append((by_seed(list(server.truth)), dict(zip(order, map(len, answers), strict=True))))
    assert found[0][0] == found[1][0]
    assert len({fault for fault, _ in found[0][0].values()}) > 8
    calm = {seed for seed, (fault, _) in found[0][0].items() if not fault.startswith(("reset", "close"))}
    assert {seed: found[0][1][seed] for seed in calm} == {seed: found[1][1][seed] for seed in calm}


async def test_a_probe_is_answered_well_and_has_no_truth() -> None:
    """A request without a seed meets no fault and is not counted in the ground truth."""
    async with FakeServer(seeded_policy(3, {"reset_first": 1.0})) as server:
        assert b"[DONE]" in await posted(server.url, None)
        assert server.truth == []


async def test_counters_move_with_what_was_sent() -> None:
    """Tokens, drafts and prefix-cache hits rise; a repeated prefix is a hit."""
    async with FakeServer() as server:
        before = await page(server.url)
        await posted(server.url, 1, "the same long text " * 50)
        await posted(server.url, 2, "the same long text " * 50)
        after = await page(server.url)
    moved = {name: after[name] - before[name] for name in after}
    assert moved["vllm:generation_tokens_total"] > 20
    assert moved["vllm:spec_decode_num_drafts_total"] > 5
    assert 0 < moved["vllm:prefix_cache_hits_total"] < moved["vllm:prefix_cache_queries_total"]


@pytest.mark.parametrize("switch", ["off", "stuck"])
async def test_speculation_and_cache_can_be_off_or_stuck(switch: Any) -> None:
    """Off: the drafts are not exported. Stuck: they are, and neither they nor the hits move."""
    async with FakeServer(engine=FakeEngine(speculation=switch, prefix_cache=switch)) as server:
        for seed in range(3):
            await posted(server.url, seed, "the same long text " * 50)
        now = await page(server.url)
    assert now.get("vllm:spec_decode_num_drafts_total") == (None if switch == "off" else 0.0)
    assert now["vllm:prefix_cache_hits_total"] == 0
    assert (now["vllm:prefix_cache_queries_total"] > 0) == (switch == "stuck")


async def test_max_tokens_is_honoured() -> None:
    """An answer never has more tokens than were asked for, whatever the fault."""
    for name in ("none", "loop", "max_tokens", "loop_reasoning"):
        async with FakeServer(one(name)) as server:
            await posted(server.url, 1)
            assert 0 < server.engine.generation_tokens <= 300


def test_a_process_of_its_own_can_be_killed_and_returns(tmp_path: Path) -> None:
    """SIGKILL frees the port, a second start takes it again, and the ground truth goes on in the same file."""
    with FakeProcess("--rates", "none", truth=tmp_path / "truth.jsonl") as server:
        first = server.url
        asyncio.run(posted(server.url, 1))
        server.kill()
        assert asyncio.run(posted(server.url, 2)) == b""
        server.start()
        asyncio.run(posted(server.url, 3))
        assert server.url == first
        assert server.state()["chats"] == 1
        assert [(row["seed"], row["expected"]) for row in server.truth()] == [(1, "ok"), (3, "ok")]

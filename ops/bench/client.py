"""
How many chunks per second one core carries on the whole path: stream → classify → store.

The fake server runs in a process of its own and sends ready-made answers of 256 chunks, in bursts (the whole answer at
once: what the client can carry at most) or paced (an event every 10 ms, as a server does: what a chunk costs when each
comes in a read of its own). Three paths are measured in the same run, so that they can be compared on a busy machine:

  bare    aiohttp and the standard library's json, text kept: the least that any Python client does
  stream  `WireClient`: parsing, folding, raw bytes kept
  whole   `WireClient` with `TurnJudge` in its sink and a `HistoryWriter` behind it

Figures are per CPU second of this process (its writer thread included), from a run of a few seconds each. Where the
server has no core of its own, chunks per wall second are as much its doing as ours.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from soak.classify import Context, TurnJudge
from soak.client import Exchange, Request, Target, WireClient
from soak.facts import ArmCard, Build, CorpusCard, Deadlines, Manifest, Record, Retries, Started, TurnKey
from soak.store import HistoryWriter, RunFolder

TESTS = Path(__file__).parents[2] / "tests"
CHUNKS = 256
PACE_S = 0.01
Turn = Callable[[int], Awaitable[float | None]]

BODY: dict[str, Any] = {
    "model": "fake-model",
    "messages": [{"role": "user", "content": "Please look into the failing test. " * 120}],
    "max_tokens": 20_000,
    "stream": True,
    "stream_options": {"include_usage": True},
    "return_token_ids": True,
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: rates over the measured time, and the median time to the first token in milliseconds."""

    path: str
    mode: str
    in_flight: int
    chunks_per_s: float
    chunks_per_cpu_s: float
    us_per_chunk: float
    cores: float
    ttft_ms: float | None


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run the fake server in its own process; yield its URL."""
    command = [sys.executable, "-m", "fakes", "--burst", str(CHUNKS), *options]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def request_of(number: int) -> Request:
    """Return the request of one turn."""
    return Request(
        key=TurnKey(episode="bench", turn=number, pass_=0, arm="candidate"),
        body={**BODY, "seed": number},
        session=f"bench-{number % 256}",
        deadlines=Deadlines(),
        retries=Retries(),
        max_tokens=20_000,
    )


@contextlib.asynccontextmanager
async def bare(url: str) -> Any:
    """The baseline: a loop as short as it can be."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def turn(number: int) -> float | None:
            sent, first, texts, rest = time.perf_counter(), None, [], b""
            async with session.post(f"{url}/v1/chat/completions", json={**BODY, "seed": number}) as answer:
                async for data in answer.content.iter_any():
                    *lines, rest = (rest + data).split(b"\n\n")
                    for line in lines:
                        if line != b"data: [DONE]" and (choices := json.loads(line[6:])["choices"]):
                            first = first or time.perf_counter()
                            texts.append(choices[0]["delta"].get("content") or "")
            return None if first is None else (first - sent) * 1000

        yield turn


@contextlib.asynccontextmanager
async def stream(url: str) -> Any:
    """Our client, nothing behind it."""
    async with WireClient(Target.parse(url)) as client:

        async def turn(number: int) -> float | None:
            return checked(await client.exchange(request_of(number), lambda _: False))

        yield turn


@contextlib.asynccontextmanager
async def whole(url: str) -> Any:
    """Client, classifier and history, as a run has them."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", manifest(url))
        with run.writer() as writer:
            async with WireClient(Target.parse(url)) as client:

                async def turn(number: int) -> float | None:
                    return await recorded(client, writer, request_of(number))

                yield turn


async def recorded(client: WireClient, writer: HistoryWriter, request: Request) -> float | None:
    """Run one turn as the engine does: record its start, judge its chunks, record its end."""
    writer.start(Started(key=request.key, start=0, at=time.time(), seed=1, prefix="sha256:0", request="sha256:0"))
    judge = TurnJudge(Context(max_tokens=request.max_tokens))

    def sink(chunk: Any) -> bool:
        judge.push(chunk)
        return False

    exchange = await client.exchange(request, sink)
    judgement = judge.finish(exchange.observation)
    record = Record(
        key=request.key, outcome="finished", at=time.time(), observation=exchange.observation, judgement=judgement
    )
    writer.finish(record)
    if judgement.class_ != "ok":
        raise SystemExit(f"the good answer was called {judgement.class_}: {judgement.reason}")
    return checked(exchange)


def checked(exchange: Exchange) -> float | None:
    """Return the time to the first token of a turn, which must be whole."""
    observation = exchange.observation
    if observation.ending != "complete" or observation.chunks != CHUNKS:
        raise SystemExit(f"an answer ended {observation.ending} with {observation.chunks} chunks: {observation.error}")
    return observation.ttft_ms


def manifest(url: str) -> Manifest:
    """Return the manifest of a run that is thrown away."""
    return Manifest(
        soak_version="bench",
        created_at=time.time(),
        scenario={},
        given={},
        seed=0,
        corpus=CorpusCard(name="bench", path="bench", digest="sha256:0", episodes=1, turns=1),
        arms=(ArmCard(name="candidate", build=Build(model="fake-model", target=url)),),
        plan_digest="sha256:0",
    )


PATHS = {"bare": bare, "stream": stream, "whole": whole}


async def measured(path: str, mode: str, url: str, in_flight: int, seconds: float) -> Figure:
    """Keep `in_flight` turns going for `seconds`, after one round to warm up, and return what it came to."""
    async with PATHS[path](url) as turn:
        numbers = iter(range(10**9))
        await asyncio.gather(*(turn(next(numbers)) for _ in range(in_flight)))
        wall, cpu, first_tokens = time.perf_counter(), time.process_time(), []
        until = wall + seconds

        async def worker() -> None:
            while time.perf_counter() < until:
                first_tokens.append(await turn(next(numbers)))

        await asyncio.gather(*(worker() for _ in range(in_flight)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    chunks = len(first_tokens) * CHUNKS
    known = sorted(one for one in first_tokens if one is not None)
    return Figure(
        path=path,
        mode=mode,
        in_flight=in_flight,
        chunks_per_s=chunks / wall,
        chunks_per_cpu_s=chunks / cpu,
        us_per_chunk=cpu / chunks * 1e6,
        cores=cpu / wall,
        ttft_ms=known[len(known) // 2] if known else None,
    )


async def all_figures(seconds: float) -> list[Figure]:
    """Measure every cell, one after the other."""
    figures = []
    for mode, options, levels in (
        ("burst", (), (1, 32, 256)),
        ("paced", ("--gap-s", str(PACE_S)), (32,)),
    ):
        with serving(*options) as url:
            for in_flight in levels:
                for path in PATHS:
                    figures.append(await measured(path, mode, url, in_flight, seconds))
    return figures


def table(figures: list[Figure]) -> str:
    """Return the figures as text."""
    lines = ["mode   in flight  path    chunks/s  per CPU second  µs CPU/chunk  cores  TTFT p50 ms"]
    for one in figures:
        ttft = "–" if one.ttft_ms is None else f"{one.ttft_ms:.1f}"
        lines.append(
            f"{one.mode:6} {one.in_flight:9} {one.path:>7}  {one.chunks_per_s:8,.0f}  {one.chunks_per_cpu_s:14,.0f}"
            f"  {one.us_per_chunk:12.1f}  {one.cores:5.2f}  {ttft:>11}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each of the 12 cells, at most 8")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    args = parser.parse_args()
    figures = uvloop.run(all_figures(min(args.seconds, 8.0)))
    print(msgspec.json.encode(figures).decode() if args.json else table(figures))


if __name__ == "__main__":
    main()

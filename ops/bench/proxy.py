"""
How much later a chunk reaches the client through `soak proxy` than without it.

The scripted server, the proxy (a real `soak proxy`, which judges and records) and this client each run in a process of
their own. Every event carries the moment at which it was sent, by the clock that all processes of a machine share, so
that what is measured is one chunk's way and no pace. Streams that go straight to the server run at the same time as
those through the proxy, in the same client, so that whatever else the machine does hits both alike:

  way_ms    event sent by the server → read by the client
  head_ms   request sent by the client → head of the answer read

What the proxy adds is the difference of the medians; given for each round, and as the median over the rounds. On a
machine that others keep busy, run it with a high priority (`nice -n -20`): else it measures how long they let it wait.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

TESTS = Path(__file__).parents[2] / "tests"
BODY = {"model": "fake-model", "max_tokens": 4000, "stream": True}
STAMP = re.compile(rb'"sent": ?([0-9.]+)')
PROMPT = "Please look into the failing test. " * 120


async def serve(chunks: int, gap_s: float) -> None:
    """Serve answers of `chunks` events, each with the moment at which it is sent; print the URL."""
    sys.path.insert(0, str(TESTS))
    from fakes import End, FakeServer, Head, Script, Send, Wait, prose, sse
    from fakes.faults import Ask

    words = prose(random.Random(1), chunks * 2).split(" ")

    def policy(ask: Ask) -> Script:
        return Script(steps(ask), finish="stop")

    def steps(ask: Ask) -> Iterator[Any]:
        yield Head()
        yield Wait(gap_s * ask.rng.random())
        for number in range(chunks):
            last = number == chunks - 1
            delta = {"content": words[number % len(words)] + ("." if last else " ")}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if last else None}
            yield Send(sse({"id": "x", "sent": time.perf_counter(), "choices": [choice]}), 1)
            yield Wait(gap_s)
        yield Send(sse(b"[DONE]"))
        yield End()

    async with FakeServer(policy, keep_bodies=False) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


@contextlib.contextmanager
def serving(chunks: int, gap_s: float) -> Iterator[str]:
    """Run the server in a process of its own; yield its URL."""
    command = [sys.executable, __file__, "--serve", "--chunks", str(chunks), "--gap-s", str(gap_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextlib.contextmanager
def proxying(target: str, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the proxy in front of it; yield its URL and process."""
    code = "from soak.cli.main import main; main()"
    order = ["proxy", "--target", target, "--port", "0", "--run", str(folder / "run"), "--log-json"]
    with subprocess.Popen([sys.executable, "-c", code, *order], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = ""
        while not url:
            found = re.search(r"(http://127\.0\.0\.1:\d+) passes on", process.stderr.readline())
            url = found[1] if found else ""
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield url, process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


async def one_stream(session: aiohttp.ClientSession, url: str, number: int) -> tuple[float, list[float]]:
    """Return the time to the head of the answer, and the way of each event, in milliseconds."""
    body = {**BODY, "messages": [{"role": "user", "content": f"{number} {PROMPT}"}]}
    sent, ways, rest = time.perf_counter(), [], b""
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        head = time.perf_counter()
        while data := await answer.content.readany():
            at = time.perf_counter()
            *whole, rest = (rest + data).split(b"\n\n")
            ways += [(at - float(STAMP.search(event)[1])) * 1000 for event in whole if b'"sent"' in event]  # type: ignore[index]
    return (head - sent) * 1000, ways


async def one_round(direct: str, through: str, args: argparse.Namespace, start: int) -> dict[str, dict[str, float]]:
    """Run all streams of a round at once; return medians and 99th percentiles by way."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        urls = [through] * args.in_flight + [direct] * args.direct
        results = await asyncio.gather(*(one_stream(session, url, start + i) for i, url in enumerate(urls)))
    return {
        "proxy": summed(results[: args.in_flight]),
        "direct": summed(results[args.in_flight :]),
    }


def summed(results: list[tuple[float, list[float]]]) -> dict[str, float]:
    """Return medians in milliseconds, and the 99th percentile of the ways."""
    ways = sorted(way for _, stream in results for way in stream)
    return {
        "head_ms": round(statistics.median(head for head, _ in results), 3),
        "way_ms": round(statistics.median(ways), 3),
        "way_p99_ms": round(ways[int(len(ways) * 0.99)], 3),
    }


def cpu_s(process: subprocess.Popen[str]) -> float:
    """Return the CPU seconds a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(args: argparse.Namespace, direct: str, through: str, process: subprocess.Popen[str]) -> Any:
    """Return the figures of all rounds; the first, in which everything is cold, does not count."""
    rounds = []
    for number in range(args.rounds + 1):
        before, began = cpu_s(process), time.perf_counter()
        figures: dict[str, Any] = await one_round(direct, through, args, number * 10_000)
        spent = cpu_s(process) - before
        figures["proxy_cores"] = round(spent / (time.perf_counter() - began), 3)
        figures["proxy_cpu_us_per_event"] = round(spent / args.in_flight / args.chunks * 1e6, 1)
        rounds.append(figures)
    counted = rounds[1:]
    added = {
        name: round(statistics.median(one["proxy"][name] - one["direct"][name] for one in counted), 3)
        for name in ("way_ms", "way_p99_ms", "head_ms")
    }
    return {"added": added, "rounds": counted}


def main() -> None:
    """Measure and print (or write) JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--in-flight", type=int, default=64, help="streams through the proxy")
    parser.add_argument("--direct", type=int, default=16, help="streams straight to the server, at the same time")
    parser.add_argument("--serve", action="store_true", help="be the server")
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--gap-s", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.chunks, args.gap_s))
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(args.chunks, args.gap_s) as direct,
        proxying(direct, Path(folder)) as (through, process),
    ):
        figures = uvloop.run(measure(args, direct, through, process))
    load = {name: getattr(args, name) for name in ("in_flight", "direct", "chunks", "gap_s")}
    machine = {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1), "nice": os.nice(0)}
    text = json.dumps({"load": load, "machine": machine, **figures}, indent=1)
    if args.out is not None:
        args.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()

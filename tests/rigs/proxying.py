"""A proxy in the test's own loop, in front of a scripted server, keeping a run in a folder."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from soak.app.proxying import ProxyOrder, manifest_of, scenario_for
from soak.app.sides import Side
from soak.classify import DEFAULTS
from soak.client import LoopLag, Passage, Target
from soak.facts import Build, Capabilities, EngineSample, Event, Record, Signal, TurnKey
from soak.proxy import Proxy, Recorder
from soak.store import RunFolder

ARM = "candidate"


class Ear:
    """A listener that remembers; `ends` may be waited for."""

    def __init__(self) -> None:
        self.keys: list[TurnKey] = []
        self.signals: list[Signal] = []
        self.records: list[Record] = []
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def started(self, key: TurnKey) -> None:
        self.keys.append(key)

    def signal(self, key: TurnKey, signal: Signal) -> None:
        self.signals.append(signal)

    def ended(self, record: Record) -> None:
        self.records.append(record)
        self._more.set()

    def event(self, event: Event) -> None:
        self.events.append(event)

    def sample(self, sample: EngineSample) -> None:
        """Engine samples are no concern of these tests."""

    async def ends(self, count: int) -> list[Record]:
        """Wait until `count` turns have ended, and return them."""
        async with asyncio.timeout(20):
            while len(self.records) < count:
                self._more.clear()
                await self._more.wait()
        return self.records

    @property
    def classes(self) -> list[str | None]:
        """The classes of the turns that ended; an outcome where there is none."""
        return [record.judgement.class_ if record.judgement else record.outcome for record in self.records]


class Between:
    """A running proxy: its `url`, what it told (`ear`), and where its run is (`folder`)."""

    def __init__(self, url: str, ear: Ear, proxy: Proxy, recorder: Recorder, folder: RunFolder) -> None:
        self.url = url
        self.ear = ear
        self.proxy = proxy
        self.recorder = recorder
        self.folder = folder

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.url.rpartition(":")[2])


@asynccontextmanager
async def between(target: str, path: Path, **options: Any) -> AsyncIterator[Between]:
    """Run a proxy in front of `target`; `options` are those of `Proxy`. Its history is closed afterwards."""
    ear, lag = Ear(), LoopLag()
    where = Target.parse(target)
    order, build = ProxyOrder(target=target), Build(model="fake-model", target=target)
    known = Capabilities(model=build.model)
    side = Side(name=ARM, target=where, capabilities=known, build=build, tool_mode="native", given=target)
    folder = RunFolder.create(path, manifest_of(order, scenario_for(order, target), side))
    listening = socket.create_server(("127.0.0.1", 0))
    with folder.writer(patience_s=0.05) as writer:
        recorder = Recorder(writer, ear, arm=ARM, settings=DEFAULTS, lag=lag, wall=time.time)
        async with Passage(where) as passage:
            proxy = Proxy(passage, recorder, **options)
            await proxy.listen(listening)
            try:
                yield Between(f"http://127.0.0.1:{listening.getsockname()[1]}", ear, proxy, recorder, folder)
            finally:
                await proxy.close()
        recorder.tell_counts()


async def raw_exchange(port: int, request: bytes) -> bytes:
    """Send bytes to a port and return the one answer, as it came; one that is cut short ends where it was cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(20):
            return await _answer(reader)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100 "):
        return head + await _answer(reader)
    lines = head.lower().decode().split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), None)
    try:
        if length is not None:
            return head + await reader.readexactly(length)
        while not head.endswith(b"\r\n0\r\n\r\n"):
            size = await reader.readuntil(b"\r\n")
            head += size
            head += await reader.readexactly(int(size, 16) + 2)
    except asyncio.IncompleteReadError as error:
        return head + error.partial
    except ConnectionError:
        pass
    return head


def http(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    """Return the bytes of a request after which the connection is closed."""
    lines = [f"{method} {path} HTTP/1.1", "host: x", "connection: close", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def dechunked(body: bytes) -> tuple[bytes, bool]:
    """Return the payload of a chunked body and whether it came to its end."""
    payload = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return payload, True
        payload += rest[:length]
        body = rest[length + 2 :]
    return payload, False

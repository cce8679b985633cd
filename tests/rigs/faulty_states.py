"""One server in this process whose faults need settings, and benches that put it into the state a grid asks for."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fakes import FakeServer, Style, seeded_policy
from fakes.needing import needing

from soak.app.probe.benches import Benches, Kept, ProbeOrder, bench_name
from soak.app.sides import ArmSpec
from soak.client import Target
from soak.facts import BuildFile, Capabilities, EngineChange, NamedBuild, Switch
from soak.probe import Asker

BUILD = NamedBuild(
    name="fake",
    file=BuildFile(
        engine="command",
        about="The scripted server.",
        command=("fake", "{port}"),
        model="fake-model",
        switches={
            "speculation": Switch(on=("--speculation=on",), off=("--speculation=off",)),
            "prefix_cache": Switch(on=("--prefix-cache=on",), off=("--prefix-cache=off",)),
        },
    ),
)


class FaultyServer:
    """A scripted server in a thread; a context manager. `needs` and `rate` may be changed between requests."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.server = FakeServer(style=replace(Style(), tokens_per_chunk=50), keep_bodies=False)

    def fail(self, seed: int, rate: float, *needs: str) -> None:
        """From now on let requests loop at this rate where all of `needs` are met, by their own hash and `seed`."""
        waits = {"first_chunk_s": 0.01 if "concurrency" in needs else 0.0, "answer_tokens": 20}
        faulty = seeded_policy(seed, {"loop": rate}, **waits)  # type: ignore[arg-type]
        self.server.policy = needing(self.server.engine, needs, faulty, seeded_policy(seed, {}, **waits))  # type: ignore[arg-type]

    def __enter__(self) -> "FaultyServer":
        self._thread.start()
        self._run(self.server.start())
        return self

    def __exit__(self, *error: object) -> None:
        self._run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, doing: Any) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(10)


class OneServer(Benches):
    """Benches that start nothing: the one server is put into the state that is asked for."""

    def __init__(self, faulty: FaultyServer, folder: Path, kept: Kept, max_requests: int = 999) -> None:
        self.order = ProbeOrder(
            target=ArmSpec(name="fake", target="fake", build=BUILD), folder=folder, max_requests=max_requests
        )
        super().__init__(self.order, kept, SimpleNamespace(preparing=lambda *_, **__: None))
        self._faulty = faulty
        self._trials = kept
        self.opened: list[str] = []

    @contextmanager
    def open(self, change: EngineChange | None = None) -> Iterator[Any]:
        """Yield the server in this state."""
        change = change or EngineChange()
        engine = self._faulty.server.engine
        engine.speculation = "off" if change.speculation is False else "on"
        engine.prefix_cache = "off" if change.prefix_cache is False else "on"
        self.opened.append(change.text)
        name = bench_name(self.order.spec(change))
        asker = Asker(
            bench=name,
            target=Target.parse(self._faulty.server.url, model="fake-model"),
            capabilities=Capabilities(model="fake-model"),
            settings=self.order.settings,
            allowance=self.allowance,
            keep=self._trials,
        )
        side = SimpleNamespace(card=None, capabilities=Capabilities(model="fake-model"))
        yield SimpleNamespace(name=name, asker=asker, side=side, check=lambda _: None)

"""
The engine against real servers and a real run folder, with a budget clock that jumps.

    rig = Rig(tmp_path / "run", scenario, episodes)
    async with FakeServer() as server:
        sitting = await rig.sit({"candidate": server})
"""

import asyncio
import heapq
import itertools
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fakes import Ask, FakeServer, Script

from rigs.planned import turn_keys
from soak.app.course import past_turn
from soak.app.sides import Side
from soak.app.sitting import open_arm
from soak.classify import DEFAULTS
from soak.client import Target
from soak.facts import (
    ArmCard,
    Budget,
    Build,
    Capabilities,
    CorpusCard,
    Episode,
    Event,
    Load,
    Manifest,
    Message,
    Record,
    Retries,
    Sampling,
    Scenario,
    Signal,
    Started,
    TurnKey,
    make_episode,
)
from soak.plan import make_plan
from soak.replay import Arm, Live, PressureGauge, Replay, Switch, TurnRunner
from soak.store import HistoryWriter, RunFolder, close_open_starts

Servers = dict[str, FakeServer]


async def until(holds: Callable[[], Any], within_s: float = 20.0) -> None:
    """Wait until `holds` is true; fails after `within_s` real seconds."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


class JumpClock:
    """
    A budget clock that stands still until it is moved: by `advance`, or by `skip` to the next moment waited for.

    `slept` lists all waits asked for, in seconds.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self._waits: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return 1_700_000_000.0 + self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waits, (self._now + seconds, next(self._numbers), done))
        await done

    def advance(self, seconds: float) -> None:
        """Move on, and wake whoever waited for a moment up to then."""
        self._now += seconds
        while self._waits and self._waits[0][0] <= self._now + 1e-9:
            _, _, done = heapq.heappop(self._waits)
            if not done.done():
                done.set_result(None)

    def skip(self) -> None:
        """Move on to the next moment that somebody waits for."""
        while self._waits and self._waits[0][2].done():
            heapq.heappop(self._waits)
        if self._waits:
            self.advance(max(0.0, self._waits[0][0] - self._now))

    async def keep_skipping(self, idle: Callable[[], bool]) -> None:
        """Skip on and on, but only while `idle` holds."""
        while True:
            await asyncio.sleep(0.0005)
            if idle():
                self.skip()


@dataclass
class Ear:
    """A listener that keeps what it hears; `on_end` is called at the end of each turn."""

    on_start: Callable[[TurnKey], None] = lambda key: None
    on_end: Callable[[Record], None] = lambda record: None
    began: list[TurnKey] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    signals: list[tuple[TurnKey, Signal]] = field(default_factory=list)
    told: list[tuple[str, str, str | None]] = field(default_factory=list)
    in_flight: set[TurnKey] = field(default_factory=set)
    most_in_flight: int = 0

    def started(self, key: TurnKey) -> None:
        assert key not in self.in_flight
        self.began.append(key)
        self.in_flight.add(key)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        self.on_start(key)

    def signal(self, key: TurnKey, signal: Signal) -> None:
        self.signals.append((key, signal))

    def ended(self, record: Record) -> None:
        self.in_flight.discard(record.key)
        self.records.append(record)
        self.on_end(record)

    def event(self, event: Event) -> None:
        self.told.append((event.kind, event.text, event.arm))

    def tell(self, kind: str, text: str, arm: str | None) -> None:
        self.told.append((kind, text, arm))

    @property
    def kinds(self) -> list[str]:
        """The kinds of what was told, in order."""
        return [kind for kind, _, _ in self.told]


def conversation(name: str, turns: int, *, size: int = 40, wait_s: float | None = None) -> Episode:
    """Return an episode of `turns` turns whose messages have about `size` characters."""
    messages = [Message(role="system", content="You are an agent."), Message(role="user", content=f"Task {name}.")]
    for turn in range(turns):
        messages.append(Message(role="assistant", content=f"{name} step {turn}: " + "look " * (size // 5)))
        messages.append(Message(role="user", content=f"{name} result {turn}: " + "data " * (size // 5)))
    episode = make_episode(name, messages)
    if wait_s is None:
        return episode
    timed = [
        type(turn)(index=turn.index, prefix=turn.prefix, answer=turn.answer, wait_s=wait_s) for turn in episode.turns
    ]
    return make_episode(name, messages, turns=timed)


def scenario(**changes: Any) -> Scenario:
    """Return a scenario that is quick: short answers, short pauses between attempts."""
    plain: dict[str, Any] = {
        "name": "rigged",
        "question": "?",
        "duration": "seconds",
        "corpus": "rigged",
        "sampling": Sampling(max_tokens=600),
        "load": Load(in_flight=3),
        "retries": Retries(attempts=2, wait_max_s=0.01),
        "budget": Budget(passes=1),
    }
    return Scenario(**{**plain, **changes})


@dataclass
class Rig:
    """A run: its folder, scenario and episodes; `sit` works on it, again and again if it was broken off."""

    path: Path
    scenario: Scenario
    episodes: Sequence[Episode]
    arms: tuple[str, ...] = ("candidate",)
    capabilities: dict[str, Any] = field(default_factory=dict)
    tool_mode: Literal["native", "text"] = "native"

    def __post_init__(self) -> None:
        self.plan = make_plan(self.scenario, self.episodes, self.arms)
        self.clock = JumpClock()
        self.ear = Ear()
        self.switch = Switch()
        self.folder: RunFolder | None = None

    async def sit(
        self,
        servers: Servers,
        *,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
        idle: Callable[[], bool] | None = None,
        stop_if: Callable[[Record], str | None] = lambda record: None,
        within_s: float = 60.0,
    ) -> Switch:
        """
        Replay what is left, until the plan is done or the run is broken off; return the switch.

        `meanwhile` runs beside it; while `idle` holds, the clock skips on.
        """
        self.switch = Switch()
        async with AsyncExitStack() as stack, asyncio.timeout(within_s):
            replay = await self._replay(stack, servers, stop_if)
            skipping = asyncio.create_task(self.clock.keep_skipping(idle)) if idle else None
            try:
                async with asyncio.TaskGroup() as group:
                    if meanwhile is not None:
                        group.create_task(_awaited(meanwhile()))
                    await replay.run()
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                if skipping is not None:
                    skipping.cancel()
        return self.switch

    async def _replay(self, stack: AsyncExitStack, servers: Servers, stop_if: Callable[[Record], str | None]) -> Replay:
        writer = stack.enter_context(self._open().writer())
        close_open_starts(writer, self.clock.wall(), "the sitting before was broken off")
        writer.flush()
        past = stack.enter_context(self._open().history())
        done, starts, used_s = frozenset(past.done()), past.start_counts(), past.active_s()
        live, load = self.scenario.replay == "live", self.scenario.load
        return Replay(
            plan=self.plan,
            arms={name: await self._arm(stack, name, server) for name, server in servers.items()},
            runner=self._runner(writer),
            ledger=writer,
            listener=self.ear,
            tell=self.ear.tell,
            clock=self.clock,
            switch=self.switch,
            starts=starts,
            carrier=Live(self.scenario, self.episodes) if live else None,
            done=done,
            over=frozenset(end.key for end in past.conversation_ends()),
            past=lambda key: past_turn(past, key),
            used_s=used_s,
            stop_if=stop_if,
            pressure=PressureGauge(load, load.pressure, self.arms) if load.pressure else None,
        )

    def _runner(self, writer: HistoryWriter) -> TurnRunner:
        return TurnRunner(
            scenario=self.scenario,
            settings=DEFAULTS,
            ledger=writer,
            listener=self.ear,
            clock=self.clock,
            switch=self.switch,
            tell=self.ear.tell,
        )

    async def _arm(self, stack: AsyncExitStack, name: str, server: FakeServer) -> Arm:
        engine = server.engine
        known = {
            "model": engine.model,
            "context_tokens": engine.context_tokens,
            "native_tools": True,
            "counts_tokens": engine.tokenize,
            "token_ids": engine.token_ids,
            **self.capabilities,
        }
        side = Side(
            name=name,
            target=Target.parse(server.url, model=engine.model),
            capabilities=Capabilities(**known),
            build=Build(model="m", target="http://x"),
            tool_mode=self.tool_mode,
            given=server.url,
        )
        arm = open_arm(side, self.scenario, clock=self.clock, switch=self.switch, tell=self.ear.tell)
        return await stack.enter_async_context(arm)

    def _open(self) -> RunFolder:
        if self.folder is None:
            self.folder = RunFolder.create(self.path, self._manifest())
        return self.folder

    def _manifest(self) -> Manifest:
        turns = sum(len(episode.turns) for episode in self.episodes)
        card = CorpusCard(name="rigged", path="rigged", digest="sha256:0", episodes=len(self.episodes), turns=turns)
        arms = tuple(ArmCard(name=name, build=Build(model="m", target="http://x")) for name in self.arms)
        return Manifest(
            soak_version="0", created_at=0.0, scenario={}, given={}, seed=self.scenario.seed, corpus=card, arms=arms,
            plan_digest="sha256:0",
        )  # fmt: skip

    # -- what came of it -----------------------------------------------------------------------------------------

    def final(self) -> dict[TurnKey, Record]:
        """Return each turn's last word."""
        with self._open().history() as history:
            return history.final()

    def starts(self) -> list[Started]:
        """Return all starts in the order of writing."""
        with self._open().history() as history:
            return list(history.starts())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return rows straight from the database."""
        with closing(sqlite3.connect(self.path / "history.sqlite")) as database:
            return database.execute(sql).fetchall()

    def outcomes(self) -> Counter[str]:
        """Return how many turns came to which end."""
        return Counter(record.outcome for record in self.final().values())

    def classes(self) -> Counter[str]:
        """Return how many finished turns have which class."""
        return Counter(record.judgement.class_ for record in self.final().values() if record.judgement)

    def assert_one_end_each(self) -> None:
        """Every start has exactly one end, no turn has two final ends, and nothing is open."""
        ends = self.rows("SELECT episode, turn, pass, arm, start FROM ends WHERE start IS NOT NULL")
        starts = self.rows("SELECT episode, turn, pass, arm, start FROM starts")
        assert sorted(ends) == sorted(starts)
        finals = self.rows("SELECT episode, turn, pass, arm FROM ends WHERE outcome != 'indeterminate'")
        assert len(finals) == len(set(finals))

    def assert_all_done(self) -> None:
        """What was planned is what is finished or skipped."""
        self.assert_one_end_each()
        finals = self.rows("SELECT episode, turn, pass, arm FROM ends WHERE outcome != 'indeterminate'")
        assert sorted(finals) == sorted((key.episode, key.turn, key.pass_, key.arm) for key in turn_keys(self.plan))


async def _awaited(what: Awaitable[None]) -> None:
    await what


class Watching:
    """A policy that also notes how many chat requests the server is answering at once."""

    def __init__(self, policy: Callable[[Ask], Script]) -> None:
        self._policy = policy
        self.server: FakeServer | None = None
        self.most = 0

    def __call__(self, ask: Ask) -> Script:
        assert self.server is not None
        self.most = max(self.most, self.server.engine.running + 1)
        return self._policy(ask)


def watched(policy: Callable[[Ask], Script], **options: Any) -> tuple[FakeServer, Watching]:
    """Return a server with `policy` and the watch over it."""
    watching = Watching(policy)
    watching.server = FakeServer(watching, **options)
    return watching.server, watching


def paced(policy: Callable[[Ask], Script], first_chunk_s: float) -> Callable[[Ask], Script]:
    """Return `policy` with a pause before each answer, so that turns overlap."""
    return lambda ask: policy(replace(ask, first_chunk_s=first_chunk_s))

"""
The loop in the middle: a load shape starts conversations, and a carrier takes each of them on, turn by turn.

    budget ends, Ctrl-C, a threshold, a lost server ─► switch: draining ─► no new turn; turns in flight go on
    second Ctrl-C, or the drain limit               ─► switch: stopped  ─► turns in flight are cancelled

The carrier (`floor.py`) is what the modes of replay differ in. Recorded: two arms get the same turn one after the
other, AB and BA alternating by pair, so that slow drift hits both alike.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from soak.facts import ConversationKey, Record, TurnKey
from soak.plan import Conversation, Plan, arrivals, in_flight_at, siblings_of
from soak.replay.arm import Arm
from soak.replay.crowd import Crowd
from soak.replay.floor import Carrier, Floor, PastTurn, Stage
from soak.replay.passes import PassWatch
from soak.replay.ports import Clock, Ledger, Listener
from soak.replay.pressure import PressureGauge
from soak.replay.recorded import Recorded
from soak.replay.switch import Switch
from soak.replay.turn import TurnRunner

_TICK_S = 0.5


class Replay:
    """
    Carries out a plan. `carrier` takes each conversation on, turn by turn (default: as recorded).

    Earlier sittings left: `done`, the keys that need no more turn; `over`, the conversations that came to their end
    where turns are made at run time; `past`, which reads a done turn again; `used_s`, the budget already used.
    `pressure` raises the conversations in flight, where the load says so.
    """

    def __init__(
        self,
        *,
        plan: Plan,
        arms: Mapping[str, Arm],
        runner: TurnRunner,
        ledger: Ledger,
        listener: Listener,
        tell: Callable[[str, str, str | None], None],
        clock: Clock,
        switch: Switch,
        starts: Mapping[TurnKey, int],
        carrier: Carrier | None = None,
        done: frozenset[TurnKey] = frozenset(),
        over: frozenset[ConversationKey] = frozenset(),
        past: Callable[[TurnKey], PastTurn | None] = lambda _: None,
        used_s: float = 0.0,
        stop_if: Callable[[Record], str | None] = lambda _: None,
        pressure: PressureGauge | None = None,
    ) -> None:
        self._plan = plan
        self._scenario = plan.scenario
        self._carrier = carrier or Recorded(plan.scenario)
        self._ledger = ledger
        self._tell = tell
        self._clock = clock
        self._switch = switch
        self._used_s = used_s
        self._stop_if = stop_if
        self._pressure = pressure
        self._all_taken = False
        self._began = clock.now()
        load, turns_done = plan.scenario.load, len({key.pair for key in done})
        self._crowd = Crowd(load, plan.scenario.seed, clock=clock, switch=switch, begun=turns_done)
        self._passes = PassWatch(siblings_of(plan.scenario.load))
        self._stage = Stage(
            arms={name: arms[name] for name in plan.arms},
            runner=runner,
            ledger=ledger,
            listener=listener,
            clock=clock,
            switch=switch,
            seed=plan.scenario.seed,
            starts=starts,
            done=done,
            over=over,
            past=past,
            after=self._after,
            crowd=self._crowd,
        )
        for key in done:
            self._passes.sent(key.pass_)  # what earlier sittings did with a pass is not known: do not call it barren

    @property
    def active_s(self) -> float:
        """Seconds of the budget used so far, earlier sessions of the same run included."""
        return self._used_s + self._clock.now() - self._began

    async def run(self) -> None:
        """Run until the plan is done or the switch says stop; afterwards nothing is in flight."""
        self._began = self._clock.now()
        watchers = [asyncio.create_task(watch) for watch in (self._tick(), self._end_of_budget())]
        load = asyncio.create_task(self._load())
        try:
            await self._until_done(load)
        finally:
            self._crowd.close()
            for task in (*watchers, load):
                task.cancel()
            results = await asyncio.gather(*watchers, load, return_exceptions=True)
            self._ledger.tick(self.active_s)
        for result in results:
            if isinstance(result, Exception):
                raise _first(result)

    async def _until_done(self, load: asyncio.Task[None]) -> None:
        """Wait for the load; once draining, wait at most the drain limit; once stopped, no longer."""
        drained = asyncio.create_task(self._switch.drained())
        stopped = asyncio.create_task(self._stop_after_drain())
        try:
            await asyncio.wait((load, drained), return_when=asyncio.FIRST_COMPLETED)
            if not load.done():
                await asyncio.wait((load, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()
            stopped.cancel()

    async def _stop_after_drain(self) -> None:
        await self._switch.drained()
        limit_s = self._scenario.drain_s
        text = f"no new turns ({self._switch.reason}); those in flight have {limit_s:.0f} s, certain loops are closed"
        self._tell("draining", text, None)
        limit = asyncio.ensure_future(self._clock.sleep(limit_s))
        stop = asyncio.ensure_future(self._switch.stopping())
        await asyncio.wait((limit, stop), return_when=asyncio.FIRST_COMPLETED)
        limit.cancel()
        stop.cancel()

    async def _tick(self) -> None:
        while True:
            self._ledger.tick(self.active_s)
            await self._clock.sleep(_TICK_S)

    async def _end_of_budget(self) -> None:
        budget = self._scenario.budget
        limit_s = (budget.hours or 0.0) * 3600 + (budget.minutes or 0.0) * 60
        if limit_s:
            await self._clock.sleep(max(0.0, limit_s - self._used_s))
            self._switch.drain("budget")

    # -- load shapes -------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        conversations = self._conversations()
        async with asyncio.TaskGroup() as group:
            if self._scenario.load.shape == "arrival":
                await self._arrive(conversations, group)
            else:
                for worker in range(self._scenario.load.most_in_flight):
                    group.create_task(self._work(worker, conversations))

    async def _arrive(self, conversations: Iterator[Conversation], group: asyncio.TaskGroup) -> None:
        """Start conversations at the planned moments, at most `in_flight` at once."""
        room = asyncio.Semaphore(self._scenario.load.in_flight)
        moments = arrivals(self._scenario.load, self._scenario.seed)
        for offset_s, conversation in zip(moments, conversations, strict=False):
            late = self._began + offset_s - self._clock.now()
            if late > 0 and not await self._switch.unless_draining(self._clock.sleep(late)):
                return
            if not await self._switch.unless_draining(room.acquire()):
                return
            group.create_task(self._converse(conversation)).add_done_callback(lambda _: room.release())

    async def _work(self, worker: int, conversations: Iterator[Conversation]) -> None:
        """Take conversations one after another; worker number n waits until the load allows n + 1 in flight."""
        while self._allowed() <= worker:
            if self._all_taken or not await self._switch.unless_draining(self._clock.sleep(1.0)):
                return
        while not self._switch.draining:
            conversation = next(conversations, None)
            if conversation is None:
                self._all_taken = True
                return
            await self._converse(conversation)

    def _allowed(self) -> int:
        """Return how many conversations may be in flight now."""
        elapsed_s = self._clock.now() - self._began
        return self._pressure.allowed(elapsed_s) if self._pressure else in_flight_at(self._scenario.load, elapsed_s)

    def _conversations(self) -> Iterator[Conversation]:
        """The plan's conversations with what is left of them; ends a looping plan if a whole pass sent nothing."""
        for conversation in self._plan.conversations(self._needs_no_more):
            if self._plan.endless and self._passes.barren:
                text = "no turn of a whole pass could be sent; see the reasons of the skipped turns"
                self._tell("nothing_fits", text, None)
                self._switch.drain("nothing_fits")
                return
            self._passes.begin(conversation)
            yield conversation

    def _needs_no_more(self, key: TurnKey) -> bool:
        """Whether a turn is done with; where turns are made at run time, that is known of whole conversations only."""
        if self._scenario.replay == "recorded":
            return key in self._stage.done
        return ConversationKey(key.episode, key.pass_, key.arm) in self._stage.over

    # -- one conversation --------------------------------------------------------------------------------------

    async def _converse(self, conversation: Conversation) -> None:
        await self._crowd.begins(conversation)
        try:
            await self._carrier.carry(Floor(conversation, self._stage))
        finally:
            self._crowd.ends()
        self._passes.end(conversation)

    def _after(self, record: Record) -> None:
        if record.outcome in ("finished", "aborted"):
            self._passes.sent(record.key.pass_)
        broken = self._stop_if(record)
        if broken is not None and not self._switch.draining:
            self._tell("threshold", broken, record.key.arm)
            self._switch.drain("threshold")


def _first(error: Exception) -> Exception:
    """Return the first plain error inside a task group's error."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error

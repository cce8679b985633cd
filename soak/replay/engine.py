"""
The loop in the middle: a load shape starts conversations, each sends its turns in order to every arm in turn.

    budget ends, Ctrl-C, a threshold, a lost server ─► switch: draining ─► no new turn; turns in flight go on
    second Ctrl-C, or the drain limit               ─► switch: stopped  ─► turns in flight are cancelled

Two arms get the same turn one after the other, AB and BA alternating by pair, so that slow drift hits both alike.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from soak.facts import Record, TurnKey
from soak.plan import Conversation, Plan, arm_order, arrivals, in_flight_at, seed_for, think_time_s
from soak.replay.arm import Arm
from soak.replay.passes import PassWatch
from soak.replay.ports import Clock, Ledger, Listener
from soak.replay.switch import Switch
from soak.replay.turn import Job, TurnRunner

_TICK_S = 0.5


class Replay:
    """Carries out a plan. `done` are the keys that need no more turn; `used_s` is the budget already used."""

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
        done: frozenset[TurnKey] = frozenset(),
        used_s: float = 0.0,
        stop_if: Callable[[Record], str | None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._scenario = plan.scenario
        self._arms = arms
        self._runner = runner
        self._ledger = ledger
        self._listener = listener
        self._tell = tell
        self._clock = clock
        self._switch = switch
        self._starts = starts
        self._done = done
        self._used_s = used_s
        self._stop_if = stop_if
        self._began = clock.now()
        self._passes = PassWatch()
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
                for worker in range(self._scenario.load.in_flight):
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
        """Take conversations one after another; worker number n waits until the ramp allows n + 1 in flight."""
        while in_flight_at(self._scenario.load, self._clock.now() - self._began) <= worker:
            if not await self._switch.unless_draining(self._clock.sleep(1.0)):
                return
        while not self._switch.draining:
            conversation = next(conversations, None)
            if conversation is None:
                return
            await self._converse(conversation)

    def _conversations(self) -> Iterator[Conversation]:
        """The plan's conversations with what is left of them; ends a looping plan if a whole pass sent nothing."""
        for conversation in self._plan.conversations(lambda key: key in self._done):
            if self._plan.endless and self._passes.barren:
                text = "no turn of a whole pass could be sent; see the reasons of the skipped turns"
                self._tell("nothing_fits", text, None)
                self._switch.drain("nothing_fits")
                return
            self._passes.begin(conversation)
            yield conversation

    # -- one conversation --------------------------------------------------------------------------------------

    async def _converse(self, conversation: Conversation) -> None:
        await self._say_all(conversation)
        self._passes.end(conversation)

    async def _say_all(self, conversation: Conversation) -> None:
        """Send the turns of one conversation in order, each to every arm, until the run drains."""
        too_long: dict[str, int] = {}
        for turn in conversation.turns:
            pause_s = think_time_s(self._scenario.think_time, turn)
            if pause_s and not await self._switch.unless_draining(self._clock.sleep(pause_s)):
                return
            order = arm_order(conversation, turn, self._plan.arms)
            for name in order:
                if self._switch.draining and name == order[0]:
                    return  # between pairs; a pair that has begun is completed
                await self._one(conversation, turn.index, name, too_long)

    async def _one(self, conversation: Conversation, index: int, name: str, too_long: dict[str, int]) -> None:
        episode = conversation.episode
        key = TurnKey(episode=episode.id, turn=index, pass_=conversation.pass_, arm=name)
        if key in self._done:
            return
        turn = episode.turns[index]
        if name in too_long and too_long[name] in {turn.prefix, *self._ancestors(conversation, index)}:
            skipped = self._skip(key, "not sent: an earlier turn of its conversation did not fit the model's context")
            self._after(skipped, turn.prefix, too_long)
            return
        job = Job(
            key=key,
            episode=episode,
            turn=turn,
            seed=seed_for(self._scenario.seed, key),
            salt=conversation.salt,
            session=f"{episode.id}.{conversation.pass_}.{name}",
            start=self._starts.get(key, 0),
        )
        record = await self._runner.run(self._arms[name], job)
        if record is not None:
            self._after(record, turn.prefix, too_long)

    def _ancestors(self, conversation: Conversation, index: int) -> Iterator[int]:
        nodes = conversation.episode.nodes
        at = nodes[conversation.episode.turns[index].prefix].parent
        while at is not None:
            yield at
            at = nodes[at].parent

    def _after(self, record: Record, prefix: int, too_long: dict[str, int]) -> None:
        if record.outcome == "skipped":
            too_long.setdefault(record.key.arm, prefix)
        elif record.outcome == "finished":
            self._passes.sent(record.key.pass_)
        broken = self._stop_if(record)
        if broken is not None and not self._switch.draining:
            self._tell("threshold", broken, record.key.arm)
            self._switch.drain("threshold")

    def _skip(self, key: TurnKey, reason: str) -> Record:
        record = Record(key=key, outcome="skipped", at=self._clock.wall(), reason=reason)
        self._ledger.finish(record)
        self._listener.ended(record)
        return record


def _first(error: Exception) -> Exception:
    """Return the first plain error inside a task group's error."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error

"""
One sitting of a run: from ready arms and an open history to a history in which nothing is in flight.

A run has one sitting, and one more for each resume.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from soak.app.agent.carrier import AgentCarrier
from soak.app.audience import Audience
from soak.app.keeping import keeping
from soak.app.sides import Side
from soak.app.watching import lone_turns, on_interrupt, polling
from soak.check import Allowed, Decider, RateDecider, Watcher, live_stop
from soak.classify import DEFAULTS
from soak.client import Desk, Request, compose, open_client
from soak.facts import ConversationKey, Deadlines, EngineSample, Event, Message, Record, Retries, Scenario, TurnKey
from soak.plan import Plan
from soak.replay import (
    Arm,
    Carrier,
    Clock,
    Gate,
    Live,
    Meter,
    PastTurn,
    PressureGauge,
    Recorded,
    Replay,
    Shaper,
    Switch,
    Tally,
    TurnRunner,
)
from soak.store import HistoryWriter

ARMS_DONE = "arms_done"
"""The event that ends a sitting whose arms have had all their turns while others have still to come."""

NEXT = "next"
"""What a sitting comes to whose arms are done while others have still to come."""

_STATES = {
    None: "complete",
    "budget": "complete",
    "nothing_fits": "complete",
    "interrupt": "interrupted",
    "decided": "complete",
    "threshold": "stopped",
    "engine_gone": "engine_gone",
}


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """
    All that one sitting starts from; `done`, `over`, `past`, `starts`, `used_s`, `tally` are what earlier sittings left
    (see `replay.Replay`), and `decider` has seen their turns (None: the run does not end by its evidence).
    `corpus_path` is where the corpus was read. `more`: arms have still to come after these.
    """

    scenario: Scenario
    plan: Plan
    sides: tuple[Side, ...]
    writer: HistoryWriter
    audience: Audience
    clock: Clock
    done: frozenset[TurnKey] = frozenset()
    over: frozenset[ConversationKey] = frozenset()
    past: Callable[[TurnKey], PastTurn | None] = lambda _: None
    starts: Mapping[TurnKey, int] = field(default_factory=dict)
    used_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    decider: Watcher | None = None
    corpus_path: Path = Path()
    more: bool = False

    def tell(self, kind: str, text: str, arm: str | None = None, **data: object) -> None:
        """Record that something happened to the run, and say so."""
        event = Event(at=self.clock.wall(), kind=kind, arm=arm, text=text, data=data)
        self.writer.event(event)
        self.audience.event(event)

    def take(self, sample: EngineSample) -> None:
        """Record one reading of a metrics page, and show it."""
        self.writer.sample(sample)
        self.audience.sample(sample)


def decider_of(plan: Plan) -> Watcher | None:
    """Return what may end a run by its evidence: of two arms (or ABA), or of one by its rates; None for any other."""
    scenario = plan.scenario
    if scenario.decide is None:
        return None
    if len(plan.arms) < 2:
        return RateDecider(scenario.decide) if scenario.decide.rates is not None else None
    first, second = plan.arms[:2]  # a third is the first once more, which shows drift and decides nothing
    budget = scenario.budget
    seconds = (budget.hours or 0.0) * 3600 + (budget.minutes or 0.0) * 60
    return Decider(
        scenario.decide,
        arms=(second, first) if second == "baseline" else (first, second),
        turns_of={episode.id: plan.turns_sent(episode) for episode in plan.episodes},
        allowed=Allowed(turns=plan.size[0] if plan.size else None, seconds=seconds or None),
    )


async def sit(sitting: Sitting) -> str:
    """
    Replay until the plan or the budget is used up, the run is interrupted, a threshold stops it, or a server is lost.

    Returns the state: complete, interrupted, stopped, engine_gone, or `NEXT` where more arms have to come. Raises
    `RunFolderError` if history cannot be written. Whatever happens, every started turn has an end when it returns.
    """
    switch = Switch()
    async with AsyncExitStack() as stack:
        stack.enter_context(on_interrupt(partial(_interrupted, sitting, switch)))
        arms = {
            side.name: await stack.enter_async_context(
                open_arm(side, sitting.scenario, clock=sitting.clock, switch=switch, tell=sitting.tell)
            )
            for side in sitting.sides
        }
        for arm in arms.values():
            await switch.unless_draining(_warm_up(sitting, arm))
        every_s, wall = sitting.scenario.scrape_every_s, sitting.clock.wall
        pressure = _pressure_of(sitting)
        take = partial(_take, sitting, pressure) if pressure else sitting.take
        watch = polling(sitting.sides, take, sitting.tell, every_s=every_s, wall_clock=wall)
        readers = await stack.enter_async_context(watch)
        for name, lone in (await stack.enter_async_context(lone_turns(sitting.sides, readers))).items():
            arms[name].around = lone.around
        await stack.enter_async_context(keeping(sitting.sides, sitting.tell, switch))
        await _replay(sitting, arms, switch, pressure)
    if sitting.more and switch.reason is None:
        sitting.tell(ARMS_DONE, f"all turns sent to {', '.join(arms)}; the next arm follows", arms=list(arms))
        return NEXT
    state = _STATES[switch.reason]
    sitting.tell("ended", state, state=state, reason=switch.reason)
    return state


@asynccontextmanager
async def open_arm(
    side: Side, scenario: Scenario, *, clock: Clock, switch: Switch, tell: Callable[[str, str, str | None], None]
) -> AsyncIterator[Arm]:
    """Open the connections of one arm, and close them; `tell` hears of its server (kind, text, arm)."""
    async with Desk(side.target) as desk, open_client(side.target, scenario.client) as client:
        gate = Gate(
            desk,
            clock=clock,
            switch=switch,
            tell=lambda kind, text: tell(kind, text, side.name),
            return_limit_s=scenario.server_return_s,
        )
        meter = Meter(
            desk,
            context_tokens=side.capabilities.context_tokens,
            counts_tokens=side.capabilities.counts_tokens,
            min_room_tokens=scenario.min_room_tokens,
        )
        try:
            yield Arm(
                name=side.name,
                client=client,
                gate=gate,
                meter=meter,
                capabilities=side.capabilities,
                tool_mode=side.tool_mode,
                block_tokens=_block_tokens(side),
                sampling=replace(scenario.sampling, **side.sampling) if side.sampling else None,
            )
        finally:
            await gate.close()


def _block_tokens(side: Side) -> int | None:
    """Return the block of the engine's cache, as its card tells it."""
    entry = side.environment.entries.get("block_size") if side.environment else None
    return (
        int(entry.value) if entry is not None and entry.value.isdecimal() and 2 <= int(entry.value) <= 16384 else None
    )


def _pressure_of(sitting: Sitting) -> PressureGauge | None:
    load = sitting.scenario.load
    return PressureGauge(load, load.pressure, tuple(side.name for side in sitting.sides)) if load.pressure else None


def _take(sitting: Sitting, pressure: PressureGauge, sample: EngineSample) -> None:
    pressure.take(sample)
    sitting.take(sample)


async def _replay(sitting: Sitting, arms: dict[str, Arm], switch: Switch, pressure: PressureGauge | None) -> None:
    runner = TurnRunner(
        scenario=sitting.scenario,
        settings=DEFAULTS.override(dict(sitting.scenario.classify)),
        ledger=sitting.writer,
        listener=_Told(sitting.audience, sitting.decider),
        clock=sitting.clock,
        switch=switch,
        tell=sitting.tell,
    )

    began = sitting.clock.now()

    def stop_if(record: Record) -> str | None:
        sitting.tally.add(record)
        if sitting.decider is not None:
            decision = sitting.decider.take(record, sitting.used_s + sitting.clock.now() - began)
            if decision is not None and not switch.draining:
                sitting.tell("decided", decision.text, outcome=decision.outcome, asked=decision.class_)
                switch.drain("decided")
        return live_stop(sitting.scenario.thresholds, sitting.tally.by_arm[record.key.arm])

    shaper = Shaper(sitting.scenario, sitting.starts)
    await Replay(
        plan=sitting.plan,
        arms=arms,
        runner=runner,
        ledger=sitting.writer,
        listener=sitting.audience,
        tell=sitting.tell,
        clock=sitting.clock,
        switch=switch,
        starts=sitting.starts,
        carrier=_carrier_of(sitting, shaper),
        done=sitting.done,
        over=sitting.over,
        past=sitting.past,
        used_s=sitting.used_s,
        stop_if=stop_if,
        pressure=pressure,
    ).run()
    for said in (shaper.said(), pressure.said() if pressure else None):
        if said is not None:
            sitting.tell("shaped", said)


class _Told:
    """The audience, with the decider told of each turn that begins."""

    def __init__(self, audience: Audience, decider: Watcher | None) -> None:
        self._decider = decider
        self.signal = audience.signal
        self.ended = audience.ended
        self.event = audience.event
        self._audience = audience

    def started(self, key: TurnKey) -> None:
        """A turn is being sent."""
        if self._decider is not None:
            self._decider.begun(key)
        self._audience.started(key)


def _carrier_of(sitting: Sitting, shaper: Shaper) -> Carrier:
    """Return what carries conversations on, by the scenario's mode of replay."""
    scenario = sitting.scenario
    if scenario.replay == "agent":
        return AgentCarrier(scenario, sitting.corpus_path)
    return Live(scenario, sitting.plan.episodes) if scenario.replay == "live" else Recorded(scenario, shaper)


def _interrupted(sitting: Sitting, switch: Switch) -> None:
    """First Ctrl-C (or SIGTERM): drain. Second: stop at once."""
    if switch.draining:
        sitting.tell("interrupted", "stopping now; turns in flight close as indeterminate")
        switch.stop("interrupt")
    else:
        sitting.tell("interrupted", "draining: turns in flight go on, no new ones; once more to stop at once")
        switch.drain("interrupt")


async def _warm_up(sitting: Sitting, arm: Arm) -> None:
    """Send a few short requests that count for nothing, so that the first turn meets a warm server."""
    for number in range(sitting.scenario.warm_up_turns):
        exchange = await arm.client.exchange(_warm_up_request(sitting.scenario, arm, number), lambda _: False)
        observation = exchange.observation
        if observation.ending not in ("complete", "no_end_marker"):
            why = observation.error or "no message"
            sitting.tell("warm_up_failed", f"warm-up request ended as {observation.ending}: {why}", arm.name)


def _warm_up_request(scenario: Scenario, arm: Arm, number: int) -> Request:
    body = compose(
        (Message(role="user", content="Answer with one word: ready."),),
        (),
        mode=arm.tool_mode,
        model=arm.capabilities.model,
        sampling=arm.sampling or scenario.sampling,
        max_tokens=8,
        seed=None,
        salt=None,
        capabilities=arm.capabilities,
        logprobs=None,
        extra_body={},
    )
    return Request(
        key=TurnKey(episode="(warm-up)", turn=number, pass_=0, arm=arm.name),
        body=body,
        session="warm-up",
        deadlines=Deadlines(first_chunk_s=scenario.deadlines.first_chunk_s),
        retries=Retries(attempts=1),
        max_tokens=8,
    )

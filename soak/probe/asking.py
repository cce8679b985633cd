"""Asks one server: repeats of a case, each judged like a turn of a run, each kept as it ends."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol

import msgspec

from soak.classify import Context, Settings, TurnJudge, prompt_text_of
from soak.client import Exchange, Request, Target, open_client
from soak.errors import SoakError
from soak.facts import (
    Capabilities,
    Case,
    Change,
    Chunk,
    Deadlines,
    Judgement,
    Observation,
    Retries,
    Trial,
    TurnKey,
    digest_of,
)
from soak.probe.allowance import Allowance
from soak.probe.question import body_of, seed_of

Sink = Callable[[Chunk], bool]
Exchanging = Callable[[Request, Sink], Awaitable[Exchange]]


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """`repeats` repeats of a case with one change, counted from `first`."""

    case: Case
    change: Change = Change()
    repeats: int = 1
    first: int = 0

    @property
    def counted(self) -> range:
        """Its repeats, as they are counted."""
        return range(self.first, self.first + self.repeats)


class Keep(Protocol):
    """Where trials are kept, and found again by a process that goes on."""

    @property
    def trials(self) -> Mapping[tuple[str, str, str, int], Trial]:
        """Those kept so far, by `Trial.key`."""
        ...

    def add(self, trial: Trial) -> None:
        """Keep one; raises `RunFolderError` if it cannot be kept."""
        ...


class Asker:
    """
    Asks one target, named `bench`; what is kept already is not asked again.

    `ask` runs its own event loop: probes are sequences of small experiments, each deciding what the next one is.
    """

    def __init__(
        self,
        *,
        bench: str,
        target: Target,
        capabilities: Capabilities,
        settings: Settings,
        allowance: Allowance,
        keep: Keep,
        deadlines: Deadlines | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.bench = bench
        self.target = replace(target, meter=allowance)
        self.capabilities = capabilities
        self._settings = settings
        self._allowance = allowance
        self._keep = keep
        self._deadlines = deadlines or Deadlines()
        self._retries = retries or Retries()
        self._occasion = secrets.token_hex(8)

    def ask(self, *asks: Ask) -> tuple[tuple[Trial, ...], ...]:
        """
        Return the trials of each ask, in the order of repeats; asks follow one another, none overlaps the next.

        Raises `UsageError` before it sends more than the probe may, `RunFolderError` where an answer cannot be kept. An
        answer that did not come is a trial too.
        """
        return asyncio.run(self._all(asks))

    def together(self, asks: Sequence[Ask], in_flight: int) -> tuple[tuple[Trial, ...], ...]:
        """
        Return the trials of each ask, all asks at once, `in_flight` requests at a time.

        First the first repeat of every ask in the order given, then the second of every one, and so on.

        Raises `UsageError` before it sends more than the probe may.
        """
        return asyncio.run(self._together(asks, in_flight))

    def missing(self, ask: Ask) -> int:
        """Return how many requests `ask` would send: those not kept yet."""
        kept = self._keep.trials
        return sum(self._key(ask, repeat) not in kept for repeat in ask.counted)

    async def _all(self, asks: Sequence[Ask]) -> tuple[tuple[Trial, ...], ...]:
        async with open_client(self.target, "wire") as client:
            return tuple([await self._one(client.exchange, ask) for ask in asks])

    async def _together(self, asks: Sequence[Ask], in_flight: int) -> tuple[tuple[Trial, ...], ...]:
        room = asyncio.Semaphore(in_flight)
        with self._allowance.held(sum(map(self.missing, asks))):
            async with open_client(self.target, "wire") as client, _at_once() as group:
                tasks = {
                    (at, repeat): group.create_task(self._within(room, client.exchange, ask, repeat))
                    for number in range(max((ask.repeats for ask in asks), default=0))
                    for at, ask in enumerate(asks)
                    for repeat in ask.counted[number : number + 1]
                }
        return tuple(tuple(tasks[at, repeat].result() for repeat in ask.counted) for at, ask in enumerate(asks))

    async def _one(self, exchange: Exchanging, ask: Ask) -> tuple[Trial, ...]:
        room = asyncio.Semaphore(ask.change.in_flight)
        with self._allowance.held(self.missing(ask)):
            async with _at_once() as group:
                tasks = [group.create_task(self._within(room, exchange, ask, repeat)) for repeat in ask.counted]
        return tuple(task.result() for task in tasks)

    async def _within(self, room: asyncio.Semaphore, exchange: Exchanging, ask: Ask, repeat: int) -> Trial:
        async with room:
            return await self._trial(exchange, ask, repeat)

    async def _trial(self, exchange: Exchanging, ask: Ask, repeat: int) -> Trial:
        kept = self._keep.trials.get(self._key(ask, repeat))
        if kept is not None:
            return kept
        body = body_of(ask.case, ask.change, repeat, self.capabilities, self._occasion)
        request = self._request(ask.case, body, repeat)
        judge = TurnJudge(_context(ask.case, request.max_tokens), self._settings)
        answer = await exchange(request, _sink(judge))
        trial = Trial(
            bench=self.bench,
            case=ask.case.digest,
            change=ask.change,
            repeat=repeat,
            seed=seed_of(ask.case, ask.change, repeat),
            body=digest_of(body),
            at=time.time(),
            observation=answer.observation,
            judgement=await asyncio.to_thread(_judged, judge, answer.observation),
        )
        self._keep.add(trial)
        return trial

    def _key(self, ask: Ask, repeat: int) -> tuple[str, str, str, int]:
        return (self.bench, ask.case.digest, digest_of(ask.change), repeat)

    def _request(self, case: Case, body: dict[str, object], repeat: int) -> Request:
        limit = body["max_tokens"]  # extra_body may say anything
        max_tokens = limit if isinstance(limit, int) and limit > 0 else case.sampling.max_tokens
        return Request(
            key=TurnKey(episode=case.name, turn=0, pass_=repeat, arm=self.bench),
            body=body,
            session=f"probe-{repeat}",
            deadlines=self._deadlines,
            retries=self._retries,
            max_tokens=max_tokens,
        )


@asynccontextmanager
async def _at_once() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a group of tasks; what one of them raises ends the others and comes out as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as several:
        told = [error for error in several.exceptions if isinstance(error, SoakError)]
        raise (told or several.exceptions)[0] from None


def _sink(judge: TurnJudge) -> Sink:
    crashed = False

    def sink(chunk: Chunk) -> bool:
        nonlocal crashed
        try:
            if not crashed:
                judge.push(chunk)
        except Exception:
            crashed = True  # `finish` reads the whole answer again
        return False

    return sink


def _judged(judge: TurnJudge, observation: Observation) -> Judgement | None:
    """Return the judgement; None if the classifier crashes, for the answer is kept all the same."""
    try:
        return judge.finish(observation)
    except Exception:
        return None


def _context(case: Case, max_tokens: int) -> Context:
    return Context(
        prompt_text=prompt_text_of(case.messages, own_answers=case.own_answers),
        tools=case.tools,
        reference=case.reference,
        reference_tokens=case.reference_tokens,
        max_tokens=max_tokens,
        tool_mode=case.tool_mode,
    )

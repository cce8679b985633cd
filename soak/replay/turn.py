"""
One turn on one arm: fit it, record its start, send it, judge it as it streams, record its end.

Every start has exactly one end: finished (whatever the server did), skipped (it does not fit), aborted (the plan has
us close its stream), or indeterminate (we ourselves were stopped, or nothing could be sent).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from soak.classify import Context, Settings, TurnJudge, prompt_text_of
from soak.client import Exchange, Request, compose, context_limit_of
from soak.errors import UsageError
from soak.facts import Chunk, Judgement, Observation, Record, Scenario, Started, TurnKey, digest_of
from soak.replay.arm import Arm
from soak.replay.asked import Asked
from soak.replay.fit import Room
from soak.replay.ports import Clock, Ledger, Listener
from soak.replay.switch import Switch

# Endings after which it is worth asking whether the server is still there.
_SUSPICIOUS = frozenset(
    {"unreachable", "reset", "no_finish", "http_error", "error_event", "deadline_first_chunk", "deadline_gap"}
)

NOT_THE_QUESTION = frozenset({"model", "return_token_ids"})
"""Fields of a body that two arms may differ in and still be asked the same."""

# Characters (about 4,000 tokens) from which on an answer takes longer to judge than the loop should stand still.
_LONG_CHARS = 16_000

# How often a turn that could not be sent is tried again once the server is there.
_SENT_AGAIN = 3


@dataclass(frozen=True, kw_only=True)
class Job:
    """A turn with all that is needed to send it."""

    key: TurnKey
    asked: Asked
    seed: int
    salt: str | None
    session: str
    start: int


class TurnRunner:
    """Runs jobs; holds what is the same for all of them."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        settings: Settings,
        ledger: Ledger,
        listener: Listener,
        clock: Clock,
        switch: Switch,
        tell: Callable[[str, str, str | None], None],
    ) -> None:
        self._scenario = scenario
        self._settings = settings
        self._ledger = ledger
        self._listener = listener
        self._clock = clock
        self._switch = switch
        self._tell = tell

    async def run(self, arm: Arm, job: Job) -> Record | None:
        """Run one job to its end and return its record; None if the arm's server is gone and nothing was started."""
        if not await arm.gate.passed():
            return None
        room = await arm.meter.room(
            job.asked.digest,
            lambda: self._body(arm, job.asked, seed=job.seed, salt=None),
            self._scenario.sampling.max_tokens,
            salted=job.salt is not None,
        )
        if room.skip is not None:
            return self._end(Record(key=job.key, outcome="skipped", at=self._clock.wall(), reason=room.skip))
        body = self._body(arm, job.asked, seed=job.seed, salt=job.salt)
        shared = body
        if arm.sampling is not None:
            shared = self._body(arm, job.asked, seed=job.seed, salt=job.salt, own=False)
        self._record_start(job, _sized(shared, room))
        try:
            record = await self._sent(arm, job, body, room)
        except asyncio.CancelledError:
            self._broken_off(job, "stopped by us while the answer was streaming")
            raise
        except UsageError as ours:  # a limit of this machine, met in mid-run: no fault of the server's
            self._broken_off(job, ours.what)
            raise
        if record.observation is not None and record.observation.ending in _SUSPICIOUS:
            await arm.gate.suspect()
        return record

    async def length(self, arm: Arm, asked: Asked, salt: str | None) -> int | None:
        """Return the tokens of a prompt as this arm would be sent it; None where its server cannot count."""
        return await arm.meter.length(self._body(arm, asked, seed=None, salt=salt))

    async def _sent(self, arm: Arm, job: Job, body: dict[str, Any], room: Room) -> Record:
        exchange, judge = await self._exchange(arm, job, body, room)
        refusal = self._context_refusal(exchange)
        if refusal is not None:
            room = arm.meter.room_after_refusal(*refusal, self._scenario.sampling.max_tokens)
            if room.skip is not None:
                return self._end(Record(key=job.key, outcome="skipped", at=self._clock.wall(), reason=room.skip))
            exchange, judge = await self._exchange(arm, job, body, room, before=exchange)
        for _ in range(_SENT_AGAIN):
            if not _never_arrived(exchange):
                break
            await arm.gate.suspect()
            if not await arm.gate.passed():
                return self._broken_off(job, "the server could not be reached; nothing was sent")
            exchange, judge = await self._exchange(arm, job, body, room, before=exchange)
        return await self._finished(job, exchange, judge)

    async def _finished(self, job: Job, exchange: Exchange, judge: TurnJudge) -> Record:
        """
        Judge the whole answer and record it, with the stream's bytes as proof unless it is ok.

        A turn that the plan marks to be closed by us is no evidence, however it ended, and gets no class: those that
        were closed would have been the longest. Another conversation's word in it is proof all the same.
        """
        judgement = await self._judged(job, judge, exchange)
        if job.asked.abort_after is not None and not _is_contaminated(judgement):
            return self._end(_aborted(job, exchange.observation, self._clock.wall()))
        record = Record(
            key=job.key,
            outcome="finished",
            at=self._clock.wall(),
            observation=exchange.observation,
            judgement=judgement,
        )
        return self._end(record, raw=None if judgement and judgement.class_ == "ok" else exchange.raw)

    async def _judged(self, job: Job, judge: TurnJudge, exchange: Exchange) -> Judgement | None:
        """
        Return the judgement; None if the classifier crashes, for the answer is kept and can be judged again.

        A long answer is read in a thread, so that the chunks of other streams are stamped when they come: the thread
        gives way every 5 ms, where the reading of 20,000 tokens takes 30 ms of CPU and more on a busy machine.
        """
        try:
            if _size(exchange.observation) > _LONG_CHARS:
                return await asyncio.to_thread(judge.finish, exchange.observation)
            return judge.finish(exchange.observation)
        except Exception as crash:
            text = f"{job.key} is not judged: the classifier crashed ({type(crash).__name__}: {str(crash)[:200]})"
            self._tell("classifier_crashed", text, job.key.arm)
            return None

    async def _exchange(
        self, arm: Arm, job: Job, body: dict[str, Any], room: Room, before: Exchange | None = None
    ) -> tuple[Exchange, TurnJudge]:
        """Send it once (with the client's own attempts); the attempts of the exchange `before` stay in the record."""
        judge = TurnJudge(self._context(arm, job, room), self._settings)
        request = Request(
            key=job.key,
            body=_sized(body, room),
            session=job.session,
            deadlines=self._scenario.deadlines,
            retries=self._scenario.retries,
            max_tokens=room.max_tokens,
            clamped=room.clamped,
        )
        abort = _Abort(job.asked.abort_after)
        async with arm.around():
            exchange = await arm.client.exchange(request, self._sink(job, judge, abort))
        if abort.closed and exchange.observation.ending == "cut":
            ours = msgspec.structs.replace(exchange.observation, ending="aborted")
            exchange = msgspec.structs.replace(exchange, observation=ours)
        if before is not None:
            attempts = before.observation.attempts + exchange.observation.attempts
            exchange = msgspec.structs.replace(
                exchange, observation=msgspec.structs.replace(exchange.observation, attempts=attempts)
            )
        return exchange, judge

    def _sink(self, job: Job, judge: TurnJudge, abort: "_Abort") -> Callable[[Chunk], bool]:
        """
        Return what looks at each chunk. By default a looping stream is let run, for a soak shows what the server does;
        while the run drains it is closed, since its class is certain and waiting for its end tells nothing more. A
        stream that the plan marks is closed where it says.
        """
        looping = crashed = False
        now = self._clock.now

        def sink(chunk: Chunk) -> bool:
            nonlocal looping, crashed
            try:
                signal = None if crashed else judge.push(chunk, now())
            except Exception:
                signal, crashed = None, True  # `finish` reads the whole answer again, and says so if it crashes too
            if signal is not None:
                looping = looping or signal.certain
                self._listener.signal(job.key, signal)
            cut = looping and (self._scenario.on_loop == "cut" or self._switch.draining)
            return abort.take(chunk) or cut

        return sink

    def _body(self, arm: Arm, asked: Asked, *, seed: int | None, salt: str | None, own: bool = True) -> dict[str, Any]:
        """Return the request; with the scenario's sampling in place of the arm's own where `own` is False."""
        return compose(
            asked.messages,
            asked.tools,
            mode=arm.tool_mode,
            model=arm.capabilities.model,
            sampling=(arm.sampling if own else None) or self._scenario.sampling,
            max_tokens=self._scenario.sampling.max_tokens,
            seed=seed,
            salt=salt,
            capabilities=arm.capabilities,
            logprobs=self._scenario.logprobs,
            extra_body=self._scenario.extra_body,
        )

    def _context(self, arm: Arm, job: Job, room: Room) -> Context:
        return Context(
            prompt_text=prompt_text_of(job.asked.messages, own_answers=self._scenario.replay != "recorded"),
            tools=job.asked.tools,
            reference=None if job.asked.answer is None else job.asked.answer.message,
            reference_tokens=job.asked.answer_tokens,
            max_tokens=room.max_tokens,
            tool_mode=arm.tool_mode,
            canary=job.asked.canary,
        )

    def _context_refusal(self, exchange: Exchange) -> tuple[int, int] | None:
        observation = exchange.observation
        if observation.ending != "http_error" or observation.error is None:
            return None
        return context_limit_of(observation.error)

    def _record_start(self, job: Job, body: dict[str, Any]) -> None:
        asked = job.asked
        chain = asked.chain if asked.answer is None else (*asked.chain, asked.answer)
        self._ledger.messages(chain, asked.tools)
        self._ledger.start(
            Started(
                key=job.key,
                start=job.start,
                at=self._clock.wall(),
                seed=job.seed,
                prefix=asked.digest,
                request=digest_of({name: value for name, value in body.items() if name not in NOT_THE_QUESTION}),
                answer=None if asked.answer is None else asked.answer.digest,
                answer_tokens=asked.answer_tokens,
                tools=digest_of(list(asked.tools)) if asked.tools else None,
            )
        )
        self._listener.started(job.key)

    def _broken_off(self, job: Job, reason: str) -> Record:
        return self._end(Record(key=job.key, outcome="indeterminate", at=self._clock.wall(), reason=reason))

    def _end(self, record: Record, raw: bytes | None = None) -> Record:
        self._ledger.finish(record, raw)
        self._listener.ended(record)
        return record


class _Abort:
    """Counts the characters of one answer, and says when the plan has it closed (`after` None: never)."""

    def __init__(self, after: int | None) -> None:
        self._left = after
        self.closed = False

    def take(self, chunk: Chunk) -> bool:
        """Take the next chunk; return whether the stream is to be closed now."""
        if self._left is None:
            return False
        calls = sum(len(call.arguments or "") for call in chunk.tool_calls)
        self._left -= len(chunk.content) + len(chunk.reasoning) + calls
        self.closed = self._left <= 0
        return self.closed


def _aborted(job: Job, observation: Observation, at: float) -> Record:
    """Return the end of a turn that the plan marks to be closed by us."""
    after = job.asked.abort_after
    if observation.ending == "aborted":
        reason = f"closed by us after {after} characters, as planned"
    else:
        reason = f"to be closed by us after {after} characters; it ended before ({observation.ending})"
    return Record(key=job.key, outcome="aborted", at=at, observation=observation, reason=reason)


def _is_contaminated(judgement: Judgement | None) -> bool:
    return judgement is not None and any(finding.kind == "contamination" for finding in judgement.findings)


def _size(observation: Observation) -> int:
    """Return the characters that were generated."""
    arguments = sum(len(call.arguments) for call in observation.tool_calls)
    return len(observation.content) + len(observation.reasoning) + arguments


def _never_arrived(exchange: Exchange) -> bool:
    """Whether no attempt came to a connection: the server owes nothing. One that took the request owes an answer."""
    observation = exchange.observation
    return observation.ending == "unreachable" and not any(attempt.taken for attempt in observation.attempts)


def _sized(body: dict[str, Any], room: Room) -> dict[str, Any]:
    """Return the request body with the tokens that there is room for."""
    return {**body, "max_tokens": room.max_tokens}

"""
One task on one arm: the agent at work in a thread, its turns asked on the event loop, its end recorded.

The agent is not ours and blocks, so it has a thread; every model call is a turn of the run like any other. After a
break the agent begins again in a fresh sandbox and is given the stored answers of the turns that were finished, so no
turn is asked twice and its commands run anew; where an output differs then, the messages do too, which is counted.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass, field, replace
from typing import Literal

from soak.app.agent import mini
from soak.app.agent.workshop import Workbench, Workshop
from soak.errors import SandboxError, SoakError
from soak.facts import Agent, ConversationEnd, Message, Node, Observation, Record, Task, chained
from soak.replay import Asked, Floor
from soak.sandbox import Ended

Reason = Literal[
    "submitted",  # handed in; whether it is resolved, its tests tell
    "submitted_empty",  # handed in, and no file of the repository was changed
    "step_limit",
    "time_limit",
    "format_errors",  # the agent gave up: several answers in a row without a usable action
    "loop_killed",  # several garbage_loop turns in a row
    "context_full",  # the conversation does not fit the model's context any more
    "error",  # a turn came back without an answer
    "agent_failed",  # mini-swe-agent itself raised an error
]

# Endings after which there is an answer, whole or cut, that an agent can be shown.
_ANSWERED = frozenset({"complete", "no_end_marker", "cut"})


class _Over(Exception):  # noqa: N818 - an end, not an error
    """The task is over for a reason that the agent does not know of."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Broken(Exception):  # noqa: N818 - an end, not an error
    """The run is being stopped: the task has no end yet."""


@dataclass(kw_only=True)
class _Course:
    """What has happened in the task so far."""

    turns: int = 0
    loops_in_a_row: int = 0
    commands: int = 0
    drifted: int = 0
    format_errors: int = 0
    asked: Asked | None = None
    answer: Message | None = None
    classes: Counter[str] = field(default_factory=Counter)
    fault: str = ""

    def take(self, asked: Asked, record: Record) -> None:
        """Count one finished turn."""
        self.asked, self.answer = asked, None
        self.turns += 1
        class_ = record.judgement.class_ if record.judgement else "unjudged"
        self.classes[class_] += 1
        self.loops_in_a_row = self.loops_in_a_row + 1 if class_ == "garbage_loop" else 0
        if record.observation is not None:
            said = record.observation
            self.answer = Message(role="assistant", content=said.content, tool_calls=said.tool_calls)

    def more(self) -> tuple[Node, ...]:
        """Return what follows the last question: its answer."""
        if self.asked is None or self.answer is None:
            return ()
        return chained(self.asked.chain, [self.answer], self.asked.tools)[len(self.asked.chain) :]


@dataclass(frozen=True, kw_only=True)
class _Result:
    """How the task came out."""

    reason: Reason
    resolved: bool = False
    passed: int = 0
    rule: str = ""


class Attempt:
    """One task on one arm; `run` once, on the event loop."""

    def __init__(self, task: Task, arm: str, floor: Floor, *, settings: Agent, workshop: Workshop) -> None:
        self._task = task
        self._arm = arm
        self._floor = floor
        self._settings = settings
        self._workshop = workshop
        self._mode = floor.tool_mode(arm)
        self._tools = mini.tools_for(self._mode)
        self._course = _Course()
        self._stop = threading.Event()
        self._asking: asyncio.Task[Record | None] | None = None
        self._began = self._deadline = 0.0

    async def run(self, executor: Executor) -> None:
        """Let the agent work to its end and record it; without an end where the run drains or is stopped."""
        self._loop = asyncio.get_running_loop()
        work = self._loop.run_in_executor(executor, self._work)
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            self._stop.set()
            if self._asking is not None:
                self._asking.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        if result is not None:
            self._end(result, time.monotonic() - self._began)

    # -- in the agent's thread ---------------------------------------------------------------------------------

    def _work(self) -> _Result | None:
        """Return how the task came out; None if the run is being stopped."""
        try:
            with self._workshop.open(self._task, self._stopped) as bench:
                self._break_if_stopped()
                self._began = time.monotonic()  # fetching an image is no part of the task's time
                self._deadline = self._began + self._settings.task_s
                return self._judged(bench, self._agent(bench))
        except (_Broken, CancelledError):
            return None
        except SandboxError:
            if not self._stopped():
                raise
            return None  # an image half fetched, for example: the task has no end and is begun again

    def _agent(self, bench: Workbench) -> Reason:
        try:
            finished = mini.work_on(
                self._task.problem,
                mode=self._mode,
                ask=self._ask,
                execute=lambda command: self._execute(bench, command),
                step_limit=self._settings.step_limit,
                time_s=self._settings.task_s,
            )
        except _Over as over:
            return over.reason
        except (_Broken, CancelledError, SoakError):
            raise
        except Exception as error:  # foreign code, fed with whatever a model says: its fault ends this task only
            self._course.fault = f"{type(error).__name__}: {str(error)[:200]}"
            return "agent_failed"
        self._course.format_errors = finished.format_errors
        return finished.reason

    def _judged(self, bench: Workbench, reason: Reason) -> _Result:
        """Return the result; only work that was handed in is judged."""
        if reason != "submitted":
            return _Result(reason=reason)
        verdict = bench.judge(self._stopped)
        self._break_if_stopped()
        if verdict is None:
            return _Result(reason="submitted_empty")
        self._course.fault = verdict.fault
        return _Result(reason=reason, resolved=verdict.resolved, passed=len(verdict.passed), rule=verdict.rule)

    def _ask(self, messages: Sequence[Message]) -> Observation:
        """Ask the arm one turn and return its answer; raises where there is none to go on with."""
        self._break_if_stopped()
        asked = Asked.of(messages, self._tools)
        record = asyncio.run_coroutine_threadsafe(self._turn(asked), self._loop).result()
        if record is None or record.outcome == "indeterminate":
            raise _Broken
        self._course.take(asked, record)
        if record.outcome == "skipped" or record.observation is None:
            raise _Over("context_full")
        if self._course.loops_in_a_row >= self._settings.loops_max:
            raise _Over("loop_killed")
        if record.observation.ending not in _ANSWERED:
            raise _Over("error")
        return record.observation

    def _execute(self, bench: Workbench, command: str) -> Ended:
        """Run one command of the agent's, for no longer than the task has left."""
        self._break_if_stopped()
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise _Over("time_limit")
        self._course.commands += 1
        limits = replace(self._workshop.limits, time_s=min(self._workshop.limits.time_s, left_s))
        ended = bench.run(command, limits, self._stopped)
        self._break_if_stopped()
        return ended

    def _stopped(self) -> bool:
        return self._stop.is_set() or self._floor.draining

    def _break_if_stopped(self) -> None:
        if self._stopped():
            raise _Broken

    # -- on the event loop -------------------------------------------------------------------------------------

    async def _turn(self, asked: Asked) -> Record | None:
        """Return the end of the next turn: the stored one if an earlier sitting has it."""
        turn = self._course.turns
        past = self._floor.past(self._arm, turn)
        if past is not None:
            self._course.drifted += past.prefix not in (None, asked.digest)
            return past.record
        if self._stopped():
            return None
        self._asking = asyncio.ensure_future(self._floor.ask(self._arm, turn, asked))
        try:
            return await self._asking
        finally:
            self._asking = None

    def _end(self, result: _Result, wall_s: float) -> None:
        """Record how the task came out."""
        course, more = self._course, self._course.more()
        last = more[-1].digest if more else course.asked.digest if course.asked else None
        counts = {
            "resolved": int(result.resolved),
            "commands": course.commands,
            "format_errors": course.format_errors,
            "drifted": course.drifted,
            "tests_passed": result.passed,
            "tests": len(self._task.fail_to_pass) + len(self._task.pass_to_pass),
            "wall_ms": round(wall_s * 1000),
            **{f"turns_{name}": count for name, count in sorted(course.classes.items())},
        }
        end = ConversationEnd(
            episode=self._task.id,
            pass_=self._floor.conversation.pass_,
            arm=self._arm,
            reason=result.reason,
            turns=course.turns,
            last=last,
            counts=counts,
            text=_sentence(self._task.id, result, course),
        )
        self._floor.end(end, asked=course.asked, more=more)


def _sentence(name: str, result: _Result, course: _Course) -> str:
    how = "resolved" if result.resolved else f"not resolved ({result.reason.replace('_', ' ')})"
    told = f"{name}: {how} after {course.turns} turns and {course.commands} commands"
    more = (f"judged by {result.rule}" if result.rule else "", course.fault)
    return "; ".join(filter(None, (told, *more)))

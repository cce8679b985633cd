"""`soak proxy`: stand between any client and any server, keep what passes as a run, and record it as a corpus."""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from soak import __version__
from soak.app.audience import Audience, Opening
from soak.app.judging import classifier_fingerprint, summary_of
from soak.app.keeping import Tell, keeping
from soak.app.limits import make_room_for_streams
from soak.app.run import environment, new_folder
from soak.app.sides import DEFAULT_ARM, Side, arm_spec, open_sides
from soak.app.watching import on_interrupt, polling
from soak.check import scenario_of
from soak.classify import DEFAULTS
from soak.client import LoopLag, Passage, Target, survey
from soak.errors import CorpusError, RunFolderError, UsageError
from soak.facts import (
    Budget,
    CorpusCard,
    Manifest,
    Scenario,
    Summary,
    Thresholds,
    digest_of,
)
from soak.importers import refuse_taken, write_corpus
from soak.proxy import BODY_LIMIT_BYTES, PATIENCE_S, Proxy, Recorder, Recording, recording_of
from soak.replay import Switch
from soak.scenario import threshold_problem
from soak.store import HistoryWriter, RunFolder, close_open_starts

LIVE = "live traffic"
_STREAMS = 1024
_TICK_S = 0.5
_TELL_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ProxyOrder:
    """
    What the command line asks for: `target` is a URL or a build, `port` 0 takes a free one.

    `record` is a corpus folder to write at the end. `pass_if` and `min_turns` are what the run is judged by. In-flight
    requests have `drain_s` seconds to end once the proxy is told to stop.
    """

    target: str
    host: str = "127.0.0.1"
    port: int = 0
    model: str | None = None
    api_key: str | None = None
    folder: Path | None = None
    record: Path | None = None
    token_ids: bool = False
    pass_if: tuple[str, ...] = ()
    min_turns: int = 30
    body_limit_bytes: int = BODY_LIMIT_BYTES
    drain_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recording that was written: its card, and what it holds and leaves out."""

    card: CorpusCard
    told: Recording


@dataclass(frozen=True, kw_only=True)
class ProxyResult:
    """What a proxied run came to; `lost` is what could not be kept, `unrecorded` why there is no recording."""

    folder: Path
    summary: Summary
    lost: str | None = None
    recorded: Recorded | None = None
    unrecorded: str | None = None


def proxy(order: ProxyOrder, audience: Audience) -> ProxyResult:
    """
    Pass traffic on until told to stop (SIGINT, SIGTERM), and return what it came to.

    Raises `UsageError` if it cannot listen, `TargetError` if nothing answers at the target, `BuildFileError` or
    `LaunchError` if a build cannot be started, `RunFolderError` or `CorpusError` if run folder or recording cannot be
    made.
    """
    _refuse_thresholds(order.pass_if)
    path = order.folder or new_folder("proxy")
    RunFolder.refuse_taken(path)
    if order.record is not None:
        refuse_taken(order.record)
    make_room_for_streams(_STREAMS, 2)
    arm = arm_spec(DEFAULT_ARM, order.target)
    scenario = scenario_for(order, arm.given)
    with ExitStack() as stack:
        listening = stack.enter_context(_bound(order.host, order.port))
        (side,) = stack.enter_context(
            open_sides(
                (arm,),
                tools=scenario.tools,
                model=order.model,
                api_key=order.api_key,
                log_folder=path,
                audience=audience,
                look=survey,
            )
        )
        folder = RunFolder.create(path, manifest_of(order, scenario, side))
        lost = _keep(folder, order, side, listening, audience)
    return _result(folder, order, lost)


def finish_recording(run: Path, record: Path) -> Recorded:
    """
    Write the recording of a proxied run that has ended, however it ended.

    Raises `UsageError` if the run is none of a proxy's, `RunFolderError`, `CorpusError`.
    """
    folder = RunFolder.open(run)
    if scenario_of(folder.manifest).replay != "proxy":
        raise UsageError(
            f"{run} cannot be recorded",
            why="it was not kept by `soak proxy`",
            hint="a replay's corpus is there already",
        )
    with folder.history() as history:
        told = Recording()
        notes = f"Recorded by `soak proxy` (soak {__version__}) from live traffic."
        return Recorded(card=write_corpus(record, recording_of(history, told), notes), told=told)


# -- before ----------------------------------------------------------------------------------------------------


def manifest_of(order: ProxyOrder, scenario: Scenario, side: Side) -> Manifest:
    """Return what is about to be kept: a scenario that says it is live traffic, and the target as it tells itself."""
    digest = digest_of(LIVE)
    return Manifest(
        soak_version=__version__,
        created_at=time.time(),
        scenario=msgspec.to_builtins(scenario),
        given={"target": side.given, "token_ids": order.token_ids},
        seed=scenario.seed,
        corpus=CorpusCard(name=LIVE, path="", digest=digest, episodes=0, turns=0),
        arms=(side.card,),
        plan_digest=digest,
        environment=environment(),
        classifier=classifier_fingerprint(DEFAULTS),
    )


def scenario_for(order: ProxyOrder, given: str) -> Scenario:
    """Return the scenario of live traffic to `given`: replay "proxy", no budget, judged by `pass_if`."""
    return Scenario(
        name="proxy",
        question=f"What became of the live traffic to {given}?",
        duration="as long as it is left running",
        corpus=LIVE,
        replay="proxy",
        budget=Budget(),
        warm_up_turns=0,
        drain_s=order.drain_s,
        thresholds=Thresholds(min_turns=order.min_turns, pass_if=order.pass_if),
    )


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket bound to the first address of `host`; raises `UsageError` if that is not possible."""
    listening: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        raise UsageError(
            f"cannot listen on {host}:{port}",
            why=getattr(error, "strerror", None) or str(error),
            hint="give another --listen HOST:PORT; port 0 takes a free one",
        ) from error
    with listening:
        yield listening


def _refuse_thresholds(texts: tuple[str, ...]) -> None:
    problems = [problem for text in texts if (problem := threshold_problem(text)) is not None]
    if problems:
        raise UsageError("a threshold cannot be used", why="; ".join(problems), hint='write it like "rate.error <= 1%"')


# -- while it runs ---------------------------------------------------------------------------------------------


def _keep(folder: RunFolder, order: ProxyOrder, side: Side, listening: socket.socket, audience: Audience) -> str | None:
    """Pass traffic on and keep it in the folder until told to stop; return what could not be kept."""
    scenario = scenario_of(folder.manifest)
    writer = folder.writer(patience_s=PATIENCE_S)  # a disk that stalls must not hold up what passes
    audience.opening(Opening(folder=folder.path, scenario=scenario, manifest=folder.manifest, planned_turns=None))
    factory = uvloop.new_event_loop if sys.platform != "win32" else None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            lost = runner.run(_pass(order, side, scenario, writer, listening, audience))
    finally:
        audience.closing()
        unwritten = _closed(writer)
    return lost or unwritten


def _closed(writer: HistoryWriter) -> str | None:
    """Close the history; return why that failed."""
    try:
        writer.close()
    except RunFolderError as error:
        return error.why
    return None


async def _pass(
    order: ProxyOrder,
    side: Side,
    scenario: Scenario,
    writer: HistoryWriter,
    listening: socket.socket,
    audience: Audience,
) -> str | None:
    lag = LoopLag()
    recorder = Recorder(writer, audience, arm=DEFAULT_ARM, settings=DEFAULTS, lag=lag, wall=time.time)
    switch = Switch()
    async with AsyncExitStack() as stack:
        passage = await stack.enter_async_context(Passage(side.target))
        proxy = Proxy(
            passage,
            recorder,
            token_ids=order.token_ids,
            body_limit_bytes=order.body_limit_bytes,
            secrets=_secrets(side.target),
        )
        tell = _teller(recorder)
        stack.enter_context(on_interrupt(lambda: tell("interrupted", _interrupted(switch))))
        every_s = scenario.scrape_every_s
        await stack.enter_async_context(polling((side,), recorder.sample, tell, every_s=every_s, wall_clock=time.time))
        await stack.enter_async_context(_counting(recorder))
        await stack.enter_async_context(keeping((side,), tell, switch))
        lag.start()
        await proxy.listen(listening)
        url = _url(listening)
        recorder.tell("listening", f"{url} passes on to {side.target}", data={"url": url})
        try:
            await switch.drained()
            proxy.drain()
            await _first_of(proxy.idle(), switch.stopping(), asyncio.sleep(order.drain_s))
        finally:
            await proxy.close()
            lag.stop()
    _end(writer, recorder, switch)
    return recorder.lost


def _end(writer: HistoryWriter, recorder: Recorder, switch: Switch) -> None:
    """Leave no start without an end, and say that the run is over."""
    recorder.tell_counts()
    if recorder.lost is not None:
        try:
            close_open_starts(writer, time.time(), "its end was not recorded")
        except RunFolderError:
            return
    state = "engine_gone" if switch.reason == "engine_gone" else "complete"
    recorder.tell("ended", state, data={"state": state, "reason": switch.reason})


def _teller(recorder: Recorder) -> Tell:
    def tell(kind: str, text: str, arm: str | None = None, **data: object) -> None:
        recorder.tell(kind, text, arm=arm, data=data)

    return tell


def _interrupted(switch: Switch) -> str:
    """Take a signal; return what it means. First: drain. Second: break off what is in flight."""
    if switch.draining:
        switch.stop("interrupt")
        return "stopping now; requests in flight are broken off"
    switch.drain("interrupt")
    return "no new requests; those in flight go on, once more to stop at once"


@asynccontextmanager
async def _counting(recorder: Recorder) -> AsyncIterator[None]:
    """Note the time, and now and then the counts, through the block."""
    began = time.monotonic()
    ticking = asyncio.create_task(_tick(recorder, began))
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        recorder.tick(time.monotonic() - began)


async def _tick(recorder: Recorder, began: float) -> None:
    due = began + _TELL_S
    while True:
        now = time.monotonic()
        recorder.tick(now - began)
        if now >= due:
            due = now + _TELL_S
            recorder.tell_counts()
        await asyncio.sleep(_TICK_S)


async def _first_of(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _secrets(target: Target) -> tuple[str, ...]:
    return tuple(secret.reveal() for secret in (target.api_key, target.basic) if secret is not None)


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# -- after -----------------------------------------------------------------------------------------------------


def _result(folder: RunFolder, order: ProxyOrder, lost: str | None) -> ProxyResult:
    recorded, unrecorded = None, None
    if order.record is not None:
        try:
            recorded = finish_recording(folder.path, order.record)
        except CorpusError as error:  # the run stands, and can be recorded later
            unrecorded = f"{error.what}: {error.why}"
    return ProxyResult(
        folder=folder.path, summary=summary_of(folder), lost=lost, recorded=recorded, unrecorded=unrecorded
    )

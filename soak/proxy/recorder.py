"""
What the proxy writes down: every turn's start before it is sent on, its end after it, and how often what else passed.

Writing never stands in the way of passing. A history that can no longer be written (a full disk) is told at once and
again every minute; from then on traffic passes unheard. A record that a stalled disk did not take in time is lost and
told, and the disk is left alone for a while, so that traffic does not wait for it again and again.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Protocol

from soak.classify import Settings
from soak.client import LoopLag, Scrub
from soak.errors import RunFolderError
from soak.facts import EngineSample, Event, Message, Record, Signal, Started, TurnKey, digest_of
from soak.proxy.answered import Answered
from soak.proxy.asked import Asked, Door, read_asked
from soak.proxy.grouping import Conversations, How, Place
from soak.proxy.hearing import Hearing
from soak.proxy.unreadable import UnreadableAskError
from soak.store import HistoryWriter

PROXIED = "proxied"
PATIENCE_S = 0.25
_REMIND_S = 60.0
_REST_S = 10.0
_HOW_WORDS: dict[How, str] = {
    "new": "new conversations",
    "goes_on": "turns that go on with one",
    "repeat": "repeats of a request (retries, further samples)",
    "side": "turns of side conversations",
    "named": "turns named by the client",
}
_KINDS: dict[Door, str] = {
    "chat/completions": "chat",
    "completions": "completion",
    "responses": "response",
    "messages": "message",
}


class Listener(Protocol):
    """Is told what happens, as it happens; must return at once and not raise."""

    def started(self, key: TurnKey) -> None:
        """A turn is being passed on."""
        ...

    def signal(self, key: TurnKey, signal: Signal) -> None:
        """Something was noticed in mid-stream."""
        ...

    def ended(self, record: Record) -> None:
        """A turn ended, or was broken off."""
        ...

    def event(self, event: Event) -> None:
        """Something happened to the run."""
        ...

    def sample(self, sample: EngineSample) -> None:
        """The engine's metrics were read."""
        ...


class Recorder:
    """
    Keeps one run. `lost` says, once it is so, that something could not be kept.

    `writer` should wait for a disk no longer than `PATIENCE_S`; `wall` returns UTC epoch seconds. Nothing here raises
    for what a client, a server or a disk does.
    """

    def __init__(
        self,
        writer: HistoryWriter,
        listener: Listener,
        *,
        arm: str,
        settings: Settings,
        lag: LoopLag,
        wall: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._listener = listener
        self._arm = arm
        self._settings = settings
        self._lag = lag
        self._wall = wall
        self._conversations = Conversations()
        self._answered = Answered()
        self._passed: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self._told: str = ""
        self._noted: set[str] = set()
        self._down = False
        self._stopped = False
        self._lost_records = 0
        self._rest_until = 0.0
        self._remind_at = 0.0

    @property
    def lost(self) -> str | None:
        """What could not be kept, as a sentence; None if everything was."""
        if self._stopped and self._writer.failed is not None:
            return self._writer.failed.why
        return f"{self._lost_records} records were not taken by the disk in time" if self._lost_records else None

    # -- turns -------------------------------------------------------------------------------------------------

    def read(self, door: Door, body: bytes, scrub: Scrub) -> Asked | None:
        """Return what a request asks, without keys; None, counted, where it cannot be judged."""
        try:
            return read_asked(door, scrub.asked(body), self._answered)
        except UnreadableAskError as why:
            self.passed(f"{door}, unreadable: {why}")
        except Exception as crash:  # a request must pass whatever our reading of it does
            self.passed(f"{door}, unreadable: {type(crash).__name__}")
        return None

    def begin(self, asked: Asked, scrub: Scrub, named: tuple[str, int] | None) -> Hearing | None:
        """Record that a turn is about to be sent on, and return what hears it; None if nothing is recorded any more."""
        if self._stopped:
            self._remind()
            return None
        place = self._place(asked, named)
        key = TurnKey(episode=place.episode, turn=place.turn, pass_=place.pass_, arm=self._arm)
        self._left_out.update(asked.left_out)
        if not self._kept(lambda: self._start(key, asked)):
            return None
        self._listener.started(key)
        if place.how == "side":
            self.note("side_conversation", f"{key.episode} leaves a conversation known by another way")
        return Hearing(key, asked, self._settings, scrub, self._listener.signal, self._keeper(key, asked))

    def end(self, hearing: Hearing) -> None:
        """Record what a turn came to."""
        record = hearing.record(self._wall(), self._lag.since(hearing.begun_s))
        class_ = record.judgement.class_ if record.judgement else None
        raw = None if class_ == "ok" else hearing.raw
        self._kept(lambda: self._writer.finish(record, raw))
        self._listener.ended(record)
        if hearing.crash is not None:
            self.tell("classifier_crashed", f"{hearing.key} is not judged: soak failed ({hearing.crash})")
        if record.observation is not None:
            self._up(hearing.reached)

    def _keeper(self, key: TurnKey, asked: Asked) -> Callable[[str, Message], None]:
        """Return what remembers an answer, where a later request may go on from it by its id."""
        carried = asked.carried
        if carried is None:
            return lambda _id, _answer: None
        return lambda id_, answer: self._answered.keep(id_, (*carried, answer), key.episode)

    def _place(self, asked: Asked, named: tuple[str, int] | None) -> Place:
        nodes = asked.chain.nodes
        if named is not None:
            return self._conversations.named(*named, nodes)
        return self._conversations.place(nodes, _KINDS[asked.door], asked.follows)

    def _start(self, key: TurnKey, asked: Asked) -> None:
        tools = asked.chain.tools
        self._writer.messages(asked.chain.nodes, tools)
        self._writer.start(
            Started(
                key=key,
                start=0,
                at=self._wall(),
                seed=asked.seed,
                prefix=asked.prefix,
                request=asked.request,
                tools=digest_of(list(tools)) if tools else None,
                door=asked.door,
            )
        )

    def _up(self, reached: bool) -> None:
        """Tell once that the server is away, and once that it is back."""
        if reached == (not self._down):
            return
        self._down = not reached
        text = "the server answers again" if reached else "the server cannot be reached"
        self.tell("server_back" if reached else "server_down", text, arm=self._arm)

    # -- everything else ---------------------------------------------------------------------------------------

    def passed(self, kind: str) -> None:
        """Count an exchange that was passed on and not judged."""
        self._passed[kind if kind in self._passed or len(self._passed) < 200 else "more kinds"] += 1

    def note(self, kind: str, text: str) -> None:
        """Tell the first of its kind; the rest are counted with what passed, or by the conversations."""
        if kind not in self._noted:
            self._noted.add(kind)
            self.tell(kind, text + " (told once; the counts are in the summary)")

    def sample(self, sample: EngineSample) -> None:
        """Record one reading of the target's metrics."""
        self._kept(lambda: self._writer.sample(sample))
        self._listener.sample(sample)

    def tick(self, active_s: float) -> None:
        """Record how long the proxy has been active."""
        self._kept(lambda: self._writer.tick(active_s))

    def tell(self, kind: str, text: str, *, arm: str | None = None, data: Mapping[str, object] | None = None) -> None:
        """Record that something happened to the run, and say so."""
        event = Event(at=self._wall(), kind=kind, arm=arm, text=text, data=dict(data or {}))
        self._kept(lambda: self._writer.event(event))
        self._listener.event(event)

    def tell_counts(self) -> None:
        """Record how requests were grouped and what passed unjudged, if that has changed since it was last told."""
        text = self._counts()
        if text and text != self._told:
            self._told = text
            counts = {"grouping": dict(self._conversations.hows), "passed": dict(self._passed)}
            self.tell(PROXIED, text, data={**counts, "left_out": dict(self._left_out)})

    def _counts(self) -> str:
        hows = self._conversations.hows
        said = [f"{hows[how]} {word}" for how, word in _HOW_WORDS.items() if hows[how]]
        passed = self._passed.total()
        if passed:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self._passed.most_common(6))
            were = "exchange was" if passed == 1 else "exchanges were"
            said.append(f"{passed} {were} passed on and not judged ({kinds})")
        if self._left_out:
            said.append(f"{self._left_out.total()} parts of messages cannot be kept ({next(iter(self._left_out))})")
        return f"live traffic: {', '.join(said)}" if said else ""

    # -- keeping -----------------------------------------------------------------------------------------------

    def _kept(self, write: Callable[[], None]) -> bool:
        """Write something; a failure is told, and never raised. Return whether it was taken."""
        if self._stopped or perf_counter() < self._rest_until:
            self._lost_records += not self._stopped
            self._remind()
            return False
        try:
            write()
        except RunFolderError:
            self._failed()
            return False
        return True

    def _failed(self) -> None:
        if self._writer.failed is None:
            self._lost_records += 1
            self._rest_until = perf_counter() + _REST_S
        else:
            self._stopped = True
        self._remind()

    def _remind(self) -> None:
        now = perf_counter()
        if now < self._remind_at or self.lost is None:
            return
        self._remind_at = now + _REMIND_S
        what = "NOT RECORDING ANY MORE" if self._stopped else "NOT EVERYTHING IS RECORDED"
        text = f"{what}: {self.lost}; traffic goes on passing through"
        self._listener.event(Event(at=self._wall(), kind="not_recording", text=text))

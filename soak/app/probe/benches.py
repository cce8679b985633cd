"""Benches: servers in one state each, opened one after the other; what they answer is kept in the probe's folder."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import msgspec

from soak.app.audience import Preparing
from soak.app.sides import ArmSpec, Side, open_sides
from soak.classify import DEFAULTS, Settings
from soak.errors import RunFolderError, TargetError, UsageError
from soak.facts import Build, EngineChange, Trial, digest_of
from soak.facts.scenario import ToolMode
from soak.launch import altered
from soak.probe import Allowance, Ask, Asker, spoke
from soak.store import Journal, read_journal

WITHOUT_SPECULATION = EngineChange(speculation=False)
_SENT_MAX = 10**9
"""More requests than any folder holds the answers of: a note of more is damage."""


@dataclass(frozen=True, kw_only=True)
class ProbeOrder:
    """
    What every probe is told: the server (`target`, a URL or a build) and where it keeps what it learns.

    `plain` is a server of the same model without speculation, for targets that soak does not start itself.
    `max_requests` bounds what is sent in all, over every process that works on `folder`: whatever can make a server
    generate or prefill, but for what it is asked about itself when it is opened (at most five answers of one token).
    `tools` is how the case's tool calls are sent.
    """

    target: ArmSpec
    folder: Path
    max_requests: int
    plain: ArmSpec | None = None
    model: str | None = None
    api_key: str | None = None
    tools: ToolMode = "auto"
    settings: Settings = DEFAULTS

    def spec(self, change: EngineChange) -> ArmSpec:
        """
        Return the server in this state: the target, the plain server given for it, or the build started so.

        Raises `UsageError` where it cannot be had.
        """
        if change == EngineChange():
            return self.target
        if self.plain is not None and change == WITHOUT_SPECULATION:
            return self.plain
        if self.plain is not None and self.plain.launched and self.plain.build and change.speculation is False:
            besides = msgspec.structs.replace(change, speculation=None)
            return replace(self.plain, build=altered(self.plain.build, besides))
        if self.target.build is None:
            raise UsageError(
                f"{self.target.target} cannot be started with {change.text}",
                why="it is a server that runs already",
                hint="give the build that it is, or with --plain a second server that runs without speculation",
            )
        return replace(self.target, build=altered(self.target.build, change))

    def incomparable(self, change: EngineChange) -> str | None:
        """Return why the target cannot be held against a server in this state: it cannot be had, or is the target."""
        plain = self.plain
        if plain is not None and change == WITHOUT_SPECULATION and bench_name(plain) == bench_name(self.target):
            return f"{plain.given} is the target itself: what it answers would be held against itself"
        return self.refusal(change)

    def refusal(self, change: EngineChange) -> str | None:
        """Return why no server can be had in this state, None if one can: asked before anything is started."""
        try:
            self.spec(change)
        except UsageError as error:
            return f"{error.what}: {error.why}"
        return None


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A server in one state, ready to be asked; `name` is the same for the same server state in every process."""

    name: str
    side: Side
    asker: Asker

    def check(self, change: EngineChange) -> None:
        """Raise `TargetError` where this was to be the server without speculation, and it says that it speculates."""
        if change == WITHOUT_SPECULATION and self.side.build.settings.get("speculation"):
            raise TargetError(
                f"{self.side.given} runs with speculation",
                why="it was to be the server without",
                hint="name with --plain a server of the same model that runs without speculation",
            )


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a bench was when it was first asked: the server at a URL may be another one tomorrow."""

    bench: str
    build: Build


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were about to be sent: one, or those of a folder that was made before they were noted."""

    at: float
    requests: Annotated[int, msgspec.Meta(ge=1, le=_SENT_MAX)] = 1


class Kept:
    """
    The trials of a probe: those of earlier processes, and each new one as it ends; a context manager.

    What an earlier process was not answered is asked again: its server may have been down. Each request is noted before
    it is sent, so that what a killed process had in flight is counted too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = Journal(folder / "trials.jsonl", Trial)
        self._servers = Journal(folder / "servers.jsonl", Served)
        self._sent = Journal(folder / "sent.jsonl", Sent)
        self._open = ExitStack()
        self.trials: dict[tuple[str, str, str, int], Trial] = {}

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._journal)
            opened.enter_context(self._servers)
            opened.enter_context(self._sent)
            self._open = opened.pop_all()
        self.trials = {trial.key: trial for trial in self._journal.kept if spoke(trial)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    @property
    def sent(self) -> int:
        """How many requests were sent, in all processes, repeated attempts and scoring included."""
        return _sent_in_all(self._sent.kept, self._journal.kept)

    def sending(self) -> None:
        """Note that one request is about to be sent; raises `RunFolderError` if the disk does not take it."""
        if not self._sent.kept and (before := self.sent):  # of a folder that was made before this was noted
            self._sent.add(Sent(at=time.time(), requests=before))
        self._sent.add(Sent(at=time.time()))

    def served(self, bench: str, build: Build) -> None:
        """Note what a bench is; raises `RunFolderError` if it is another server than the one that answered before."""
        before = {one.bench: one.build for one in self._servers.kept}.get(bench)
        if before is None:
            self._servers.add(Served(bench=bench, build=build))
        elif _another(before, build):
            raise RunFolderError(
                f"{bench} is another server than the one whose answers {self._folder} keeps",
                why=f"it was {_told(before)}, and is {_told(build)}",
                hint="begin anew in another folder, or without --into",
            )

    def add(self, trial: Trial) -> None:
        """Keep one; raises `RunFolderError` if the disk does not take it."""
        self._journal.add(trial)
        self.trials[trial.key] = trial


def sent_before(folder: Path) -> int:
    """Return how many requests were sent for what a folder keeps; raises `RunFolderError` if it is damaged."""
    return _sent_in_all(read_journal(folder / "sent.jsonl", Sent), read_journal(folder / "trials.jsonl", Trial))


def _sent_in_all(notes: Sequence[Sent], trials: Sequence[Trial]) -> int:
    """Return what was noted, and no less than the answers show: requests were not always noted."""
    answered = sum(max(1, len(trial.observation.attempts)) for trial in trials)
    return max(answered, sum(one.requests for one in notes))


class Benches:
    """Opens servers for one probe; made by `open_benches`."""

    def __init__(self, order: ProbeOrder, kept: Kept, audience: Preparing) -> None:
        self.order = order
        self._kept = kept
        self.audience = audience
        self.allowance = Allowance(order.max_requests, used=kept.sent, note=kept.sending)

    def kept(self, change: EngineChange, ask: Ask) -> tuple[Trial, ...] | None:
        """Return the trials of `ask` on a server in this state, if all of them are kept: then none is needed for it."""
        return self.kept_by(bench_name(self.order.spec(change)), ask)

    def kept_by(self, bench: str, ask: Ask) -> tuple[Trial, ...] | None:
        """Return the trials of an ask that a server of this name answered, if all of them are kept."""
        change, case = digest_of(ask.change), ask.case.digest
        found = [self._kept.trials.get((bench, case, change, repeat)) for repeat in ask.counted]
        trials = tuple(trial for trial in found if trial is not None)
        return trials if len(trials) == len(found) else None

    @contextmanager
    def open(self, change: EngineChange | None = None, serving: int = 1) -> Iterator[Bench]:
        """
        Yield a server in the state asked for, and stop it afterwards if it was started for this.

        `serving` counts the times the same state is served: what the first serving answered is not the second's.

        Raises `UsageError` where `refusal` has words, `LaunchError` or `TargetError` where the server does not come.
        """
        spec = self.order.spec(change or EngineChange())
        name = bench_name(spec, serving)
        with open_sides(
            (spec,),
            tools=self.order.tools,
            model=self.order.model,
            api_key=self.order.api_key,
            log_folder=self.order.folder,
            audience=self.audience,
        ) as (side,):
            self._kept.served(name, side.build)
            side = replace(side, target=replace(side.target, meter=self.allowance))
            asker = Asker(
                bench=name,
                target=side.target,
                capabilities=side.capabilities,
                settings=self.order.settings,
                allowance=self.allowance,
                keep=self._kept,
            )
            yield Bench(name=name, side=side, asker=asker)


def _another(before: Build, now: Build) -> bool:
    """Whether two servers differ in what both of them tell; what one does not tell is no difference."""
    names = ("speculation", "prefix_cache")
    pairs = [(before.settings.get(name), now.settings.get(name)) for name in names]
    pairs += [(before.engine, now.engine), (before.version, now.version), (before.model, now.model)]
    return any(one != other for one, other in pairs if one is not None and other is not None)


def _told(build: Build) -> str:
    words = (build.engine or "an unknown engine", build.version or "", build.model)
    on = [name for name in ("speculation", "prefix_cache") if build.settings.get(name)]
    return " ".join(filter(None, words)) + (f" with {' and '.join(on)}" if on else "")


def engine_kept(order: ProbeOrder) -> str | None:
    """Return which engine the target was when it was first asked, None where that is not known."""
    kept = read_journal(order.folder / "servers.jsonl", Served)
    return {one.bench: one.build.engine for one in kept}.get(bench_name(order.target))


def bench_name(spec: ArmSpec, serving: int = 1) -> str:
    """
    Return a name for a server state that says what it is, and differs wherever what is started differs.

    `serving` counts the times that the same state is served.
    """
    name = spec.given if spec.build is None else f"{spec.build.name} {digest_of(spec.build)[7:15]}"
    return name if serving == 1 else f"{name} serving {serving}"


@contextmanager
def open_benches(order: ProbeOrder, audience: Preparing) -> Iterator[Benches]:
    """Yield what opens servers for a probe, with all that an earlier process kept in its folder."""
    with Kept(order.folder) as kept:
        yield Benches(order, kept, audience)

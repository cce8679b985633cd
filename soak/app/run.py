"""`soak run`: replay a scenario against one or two arms, and say what it came to."""

import asyncio
import platform
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import uvloop

from soak import __version__
from soak.app.agent import mini
from soak.app.agent.carrier import refuse_if_unable, tasks_corpus
from soak.app.audience import Audience
from soak.app.course import Course, Earlier
from soak.app.judging import classifier_fingerprint, summary_of
from soak.app.limits import make_room_for_streams
from soak.app.order import Phase, WantedOrder, order_of, phases_of
from soak.app.sides import ArmSpec, Side, card_to_come, open_sides, refuse_two_tool_modes
from soak.app.sitting import Sitting, decider_of, sit
from soak.classify import DEFAULTS
from soak.facts import ArmOrder, Manifest, Scenario, Summary
from soak.importers import Corpus, find_corpus, find_tasks, load_corpus
from soak.plan import Plan, make_plan, plan_digest, shapes_of
from soak.scenario import Loaded, find_scenario, load_scenario
from soak.store import RunFolder

_CLIENT_PACKAGES = ("aiohttp", "msgspec", "openai", "uvloop")


@dataclass(frozen=True, kw_only=True)
class RunOrder:
    """What the command line asks for; `overrides` are `--set` and the flags that stand for one, dotted."""

    scenario: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    arms: tuple[ArmSpec, ...]
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    folder: Path | None = None
    arm_order: WantedOrder = "auto"


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run came to, and where it is kept."""

    folder: Path
    summary: Summary


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A checked scenario with its corpus and plan: nothing has been sent or written yet."""

    loaded: Loaded
    corpus: Corpus
    plan: Plan
    arm_order: ArmOrder
    phases: tuple[Phase, ...]


def prepare_run(order: RunOrder) -> Prepared:
    """
    Read and check the scenario, its corpus and the arms' order.

    Raises `ScenarioError`, `CorpusError`, `UsageError`.
    """
    loaded = load_scenario(
        find_scenario(order.scenario), order.overrides, known_classify=[field.name for field in fields(DEFAULTS)]
    )
    corpus = corpus_for(loaded.scenario, loaded.scenario.corpus)
    arm_order = order_of(order.arm_order, order.arms, loaded.scenario.budget)
    phases = phases_of(arm_order, order.arms)
    names = [arm.name for phase in phases for arm in phase]
    plan = make_plan(loaded.scenario, corpus.episodes, names)
    return Prepared(loaded=loaded, corpus=corpus, plan=plan, arm_order=arm_order, phases=phases)


def corpus_for(scenario: Scenario, name_or_path: str) -> Corpus:
    """Return the corpus (for an agent: the tasks) of this name or at this path; raises `CorpusError`."""
    if scenario.replay == "agent":
        return tasks_corpus(scenario, find_tasks(name_or_path))
    return load_corpus(find_corpus(name_or_path))


def refuse_idle_agent(scenario: Scenario, corpus: Corpus) -> None:
    """Raise `UsageError` or `SandboxError` if the scenario needs an agent and none can work here."""
    if scenario.replay == "agent":
        refuse_if_unable(scenario, Path(corpus.card.path))


def run(order: RunOrder, audience: Audience, prepared: Prepared | None = None) -> RunResult:
    """
    Replay the scenario and return its summary; raises `SoakError` if it cannot begin or be recorded.

    `prepared` is the order as `prepare_run` returned it, if it was called before.
    """
    prepared = prepared or prepare_run(order)
    refuse_idle_agent(prepared.loaded.scenario, prepared.corpus)
    path = order.folder or new_folder(prepared.loaded.scenario.name)
    RunFolder.refuse_taken(path)
    beginning = _Beginning(path, prepared)
    folder = Course(
        scenario=prepared.loaded.scenario,
        plan=prepared.plan,
        phases=prepared.phases,
        audience=audience,
        open_phase=lambda phase: open_sides(
            phase,
            tools=prepared.loaded.scenario.tools,
            model=order.model,
            api_key=order.api_key,
            log_folder=path,
            audience=audience,
        ),
        begin=beginning.begin,
        sit=run_loop,
        corpus_path=Path(prepared.corpus.card.path),
    ).follow()
    return RunResult(folder=path, summary=summary_of(folder))


class _Beginning:
    """Makes the run folder when the first phase is up, and notes the arms of later ones in its manifest."""

    def __init__(self, path: Path, prepared: Prepared) -> None:
        self._path = path
        self._prepared = prepared
        self._folder: RunFolder | None = None
        self._earlier = Earlier(decider=decider_of(prepared.plan))

    def begin(self, sides: tuple[Side, ...]) -> tuple[RunFolder, Earlier]:
        """Return the folder of the run, and what these sides go on from."""
        if self._folder is None:
            self._folder = RunFolder.create(self._path, manifest_of(self._prepared, sides))
        else:
            note_sides(self._folder, sides)
            self._earlier = replace(self._earlier, used_s=used_s_of(self._folder))
        return self._folder, self._earlier


def note_sides(folder: RunFolder, sides: tuple[Side, ...]) -> None:
    """Put the cards of arms that have just been started into the manifest; raises `TargetError` if they do not fit."""
    new = {side.name: side.card for side in sides}
    cards = tuple(new.get(card.name, card) for card in folder.manifest.arms)
    refuse_two_tool_modes({card.name: card.tool_mode for card in cards if card.capabilities is not None})
    if cards != folder.manifest.arms:
        folder.update_manifest(msgspec.structs.replace(folder.manifest, arms=cards))


def used_s_of(folder: RunFolder) -> float:
    """Return the seconds that the run has been active so far."""
    with folder.history() as history:
        return history.active_s()


def new_folder(scenario: str) -> Path:
    """Return a fresh run folder's path: `runs/<scenario>-<UTC time>-<4 hex digits>`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Path("runs") / f"{scenario}-{stamp}-{secrets.token_hex(2)}"


def manifest_of(prepared: Prepared, sides: tuple[Side, ...]) -> Manifest:
    """Return what is about to be run; an arm whose phase has still to come has a card that says no more than that."""
    scenario = prepared.loaded.scenario
    cards = {side.name: side.card for side in sides}
    return Manifest(
        soak_version=__version__,
        created_at=time.time(),
        scenario=msgspec.to_builtins(scenario),
        given=dict(prepared.loaded.given),
        seed=scenario.seed,
        corpus=prepared.corpus.card,
        arms=tuple(cards.get(arm.name) or card_to_come(arm) for phase in prepared.phases for arm in phase),
        plan_digest=plan_digest(
            scenario, prepared.corpus.card.digest, scenario.seed, prepared.plan.arms, own_sampling(prepared.phases)
        ),
        environment=environment(*((mini.PACKAGE,) if scenario.replay == "agent" else ())),
        classifier=classifier_fingerprint(DEFAULTS.override(dict(scenario.classify))),
        arm_order=prepared.arm_order,
        shapes=shapes_of(prepared.plan),
    )


def own_sampling(phases: Sequence[Phase]) -> dict[str, dict[str, object]]:
    """Return the fields in which arms are asked otherwise than the scenario says, by arm."""
    return {arm.name: dict(arm.sampling) for phase in phases for arm in phase if arm.sampling}


def environment(*more: str) -> dict[str, str]:
    """Return the versions on our side that may matter to a timing, and those of the packages named."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in (*_CLIENT_PACKAGES, *more):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def run_loop(sitting: Sitting) -> str:
    """Run one sitting on a fresh event loop and return its state; raises `UsageError` if our own limits are too low."""
    make_room_for_streams(sitting.scenario.load.most_in_flight, len(sitting.sides))
    factory = uvloop.new_event_loop if sys.platform != "win32" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(sit(sitting))

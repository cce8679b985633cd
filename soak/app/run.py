"""`soak run`: replay a scenario against one or two arms, and say what it came to."""

import asyncio
import platform
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import uvloop

from soak import __version__
from soak.app.agent.carrier import refuse_if_unable, tasks_corpus
from soak.app.audience import Audience, Opening
from soak.app.judging import classifier_fingerprint, summary_of
from soak.app.limits import make_room_for_streams
from soak.app.sides import ArmSpec, Side, open_sides
from soak.app.sitting import Sitting, decider_of, sit
from soak.classify import DEFAULTS
from soak.facts import Manifest, Scenario, Summary
from soak.importers import Corpus, find_corpus, find_tasks, load_corpus
from soak.plan import Plan, make_plan, plan_digest
from soak.replay import RealClock
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


def prepare_run(order: RunOrder) -> Prepared:
    """Read and check the scenario and its corpus; raises `ScenarioError`, `CorpusError`."""
    loaded = load_scenario(
        find_scenario(order.scenario), order.overrides, known_classify=[field.name for field in fields(DEFAULTS)]
    )
    corpus = corpus_for(loaded.scenario, loaded.scenario.corpus)
    return Prepared(
        loaded=loaded, corpus=corpus, plan=make_plan(loaded.scenario, corpus.episodes, [arm.name for arm in order.arms])
    )


def corpus_for(scenario: Scenario, name_or_path: str) -> Corpus:
    """Return the corpus (for an agent: the tasks) of this name or at this path; raises `CorpusError`."""
    if scenario.replay == "agent":
        return tasks_corpus(scenario, find_tasks(name_or_path))
    return load_corpus(find_corpus(name_or_path))


def run(order: RunOrder, audience: Audience, prepared: Prepared | None = None) -> RunResult:
    """
    Replay the scenario and return its summary; raises `SoakError` if it cannot begin or be recorded.

    `prepared` is the order as `prepare_run` returned it, if it was called before.
    """
    prepared = prepared or prepare_run(order)
    if prepared.loaded.scenario.replay == "agent":
        refuse_if_unable(prepared.loaded.scenario, Path(prepared.corpus.card.path))
    path = order.folder or new_folder(prepared.loaded.scenario.name)
    RunFolder.refuse_taken(path)
    with open_sides(
        order.arms,
        scenario=prepared.loaded.scenario,
        model=order.model,
        api_key=order.api_key,
        log_folder=path,
        audience=audience,
    ) as sides:
        folder = RunFolder.create(path, manifest_of(prepared, sides))
        _sit(folder, prepared, sides, audience)
    return RunResult(folder=path, summary=summary_of(folder))


def new_folder(scenario: str) -> Path:
    """Return a fresh run folder's path: `runs/<scenario>-<UTC time>-<4 hex digits>`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Path("runs") / f"{scenario}-{stamp}-{secrets.token_hex(2)}"


def manifest_of(prepared: Prepared, sides: tuple[Side, ...]) -> Manifest:
    """Return what is about to be run."""
    scenario = prepared.loaded.scenario
    return Manifest(
        soak_version=__version__,
        created_at=time.time(),
        scenario=msgspec.to_builtins(scenario),
        given=dict(prepared.loaded.given),
        seed=scenario.seed,
        corpus=prepared.corpus.card,
        arms=tuple(side.card for side in sides),
        plan_digest=plan_digest(scenario, prepared.corpus.card.digest, scenario.seed, prepared.plan.arms),
        environment=environment(),
        classifier=classifier_fingerprint(DEFAULTS.override(dict(scenario.classify))),
    )


def environment() -> dict[str, str]:
    """Return the versions on our side that may matter to a timing."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in _CLIENT_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _sit(folder: RunFolder, prepared: Prepared, sides: tuple[Side, ...], audience: Audience) -> str:
    with folder.writer() as writer:
        audience.opening(
            Opening(
                folder=folder.path,
                scenario=prepared.loaded.scenario,
                manifest=folder.manifest,
                planned_turns=prepared.plan.size[0] * len(sides) if prepared.plan.size else None,
            )
        )
        try:
            return run_loop(
                Sitting(
                    scenario=prepared.loaded.scenario,
                    plan=prepared.plan,
                    sides=sides,
                    writer=writer,
                    audience=audience,
                    clock=RealClock(),
                    decider=decider_of(prepared.plan),
                    corpus_path=Path(prepared.corpus.card.path),
                )
            )
        finally:
            audience.closing()


def run_loop(sitting: Sitting) -> str:
    """Run one sitting on a fresh event loop and return its state; raises `UsageError` if our own limits are too low."""
    make_room_for_streams(sitting.scenario.load.in_flight, len(sitting.sides))
    factory = uvloop.new_event_loop if sys.platform != "win32" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(sit(sitting))

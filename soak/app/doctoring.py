"""`soak doctor`: what is installed, what the target is, what will not work and how to fix it."""

import asyncio
import sys
from pathlib import Path

import msgspec

from soak import __version__
from soak.app.agent.carrier import refuse_if_unable
from soak.app.run import corpus_for
from soak.app.sides import DEFAULT_ARM, arm_spec, ask
from soak.app.surroundings import Check, surroundings
from soak.client import Target
from soak.errors import SoakError, TargetError, UsageError
from soak.facts import Capabilities, Scenario
from soak.importers import Corpus
from soak.scenario import available_scenarios, find_scenario, load_scenario


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All that was looked at; `target` is what the server can do, None if none was asked."""

    schema: str = "soak.doctor/1"
    checks: tuple[Check, ...]
    target: Capabilities | None = None

    @property
    def problems(self) -> int:
        """How many things will not work; a target that is no usable server is one."""
        return sum(check.state == "problem" for check in self.checks)


def examine(target: str | None, *, model: str | None, api_key: str | None) -> Diagnosis:
    """Look at this installation, and at `target` if one is given; that it is no usable server is a problem found."""
    checks = [_python(), *surroundings(), *_scenarios()]
    if target is None:
        return Diagnosis(checks=tuple(checks))
    try:
        goal = _goal(target, model, api_key)
        capabilities = asyncio.run(ask(goal))
    except TargetError as error:
        dead = Check(name="target", state="problem", text=f"{error.what}: {error.why}", fix=error.hint)
        return Diagnosis(checks=(*checks, dead))
    return Diagnosis(checks=(*checks, *_target(goal, capabilities)), target=capabilities)


def _goal(target: str, model: str | None, api_key: str | None) -> Target:
    """Return the server that is meant; raises `UsageError` for a build that soak would have to start."""
    spec = arm_spec(DEFAULT_ARM, target)
    if spec.launched:
        raise UsageError(
            f"the build {target} is no server that runs",
            why="doctor starts nothing; what lies ready of each build it tells without --target",
            hint=f"soak serve {target}, and then give the URL that it prints",
        )
    return Target.parse(spec.url, model=model, api_key=api_key)


def _python() -> Check:
    return Check(name="soak", state="ok", text=f"{__version__} on Python {sys.version.split()[0]}")


def _scenarios() -> list[Check]:
    return [_scenario(name) for name in available_scenarios()]


def _scenario(name: str) -> Check:
    try:
        loaded = load_scenario(find_scenario(name))
        corpus = corpus_for(loaded.scenario, loaded.scenario.corpus)
    except SoakError as error:
        return Check(name=f"scenario {name}", state="problem", text=f"{error.what}: {error.why}", fix=error.hint)
    if loaded.scenario.replay == "agent":
        return _agent(name, loaded.scenario, corpus)
    text = f"{corpus.card.episodes} episodes, {corpus.card.turns} turns"
    return Check(name=f"scenario {name}", state="ok", text=text)


def _agent(name: str, scenario: Scenario, corpus: Corpus) -> Check:
    """Say whether an agent could work on its tasks here; that it cannot is no fault of the installation."""
    text = f"{corpus.card.episodes} tasks"
    try:
        refuse_if_unable(scenario, Path(corpus.card.path))
    except SoakError as error:
        return Check(name=f"scenario {name}", state="note", text=f"{text}; {error.what}: {error.why}", fix=error.hint)
    return Check(name=f"scenario {name}", state="ok", text=f"{text}; the agent and its sandbox work here")


def _target(target: Target, found: Capabilities) -> list[Check]:
    """Say what of the target is known and what follows from what is missing."""
    wants: list[tuple[str, bool | None, str, str]] = [
        ("metrics", found.metrics, "/metrics is there", "no /metrics: acceptance and prefix-cache hits stay unknown"),
        ("speculation", found.speculation_on, "on", "off, or the engine does not say"),
        ("prefix cache", found.prefix_cache_on, "on", "off, or the engine does not say"),
        (
            "token ids",
            found.token_ids,
            "sent with each chunk",
            "not sent: loops are found on text, onset in characters",
        ),
        ("logprobs", found.logprobs, "sent on request", "not sent"),
        ("native tools", found.native_tools, "taken", "not taken: use tools=text (auto does)"),
        ("token counts", found.counts_tokens, "by /tokenize", "no /tokenize: max_tokens is clamped by estimate"),
        ("context", found.context_tokens is not None, f"{found.context_tokens} tokens", "unknown: nothing is clamped"),
    ]
    engine = f"{found.engine or 'unknown engine'} {found.version or ''}".strip()
    checks = [Check(name="target", state="ok", text=f"{target}: {engine}, model {found.model}")]
    checks += [
        Check(name=name, state="ok" if there else "note", text=yes if there else no) for name, there, yes, no in wants
    ]
    return checks + [Check(name="target", state="note", text=note) for note in found.notes]

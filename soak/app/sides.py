"""The arms of a run before it starts: which server each one means, and what that server can do."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from soak.app.audience import Audience
from soak.client import Desk, Target, discover
from soak.errors import TargetError, UsageError
from soak.facts import ArmCard, Build, Capabilities, Scenario
from soak.launch import LOCAL, Progress, Report, RunningServer, Step, prepare, start
from soak.scrape import parse_metrics
from soak.store import engine_log_path

LOCAL_NAME = "local"
DEFAULT_ARM = "candidate"


@dataclass(frozen=True, kw_only=True)
class ArmSpec:
    """What the command line says of one arm: its name and `local` or a URL."""

    name: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """One arm, ready to be tested."""

    name: str
    target: Target
    capabilities: Capabilities
    build: Build
    tool_mode: Literal["native", "text"]
    local: bool

    @property
    def card(self) -> ArmCard:
        """What the manifest says of it."""
        return ArmCard(
            name=self.name,
            build=self.build,
            given_target=LOCAL_NAME if self.local else str(self.target),
            tool_mode=self.tool_mode,
            capabilities=self.capabilities,
        )


def parse_arms(arms: list[str], target: str | None) -> tuple[ArmSpec, ...]:
    """
    Return the arms meant by `--arm NAME=URL_OR_BUILD …` or `--target URL`; raises `UsageError` if they clash.

    Without either it is the embedded local build.
    """
    if arms and target:
        raise UsageError("both --arm and --target were given", why="they name the same thing", hint="give one of them")
    if not arms:
        return (ArmSpec(name=DEFAULT_ARM, target=target or LOCAL_NAME),)
    specs = tuple(_parse_arm(text) for text in arms)
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names) or len(specs) > 2:
        raise UsageError(
            f"--arm names {', '.join(names)}",
            why="a run has one or two arms with different names",
            hint="see soak run --help",
        )
    return specs


def _parse_arm(text: str) -> ArmSpec:
    name, _, target = text.partition("=")
    if not target or not name.isidentifier():
        raise UsageError(
            f"--arm {text} cannot be read",
            why="it must be NAME=URL or NAME=local",
            hint="--arm baseline=http://host:8000",
        )
    return ArmSpec(name=name, target=target)


@contextmanager
def open_sides(
    specs: tuple[ArmSpec, ...],
    *,
    scenario: Scenario,
    model: str | None,
    api_key: str | None,
    log_folder: Path,
    audience: Audience,
    begun_with: Mapping[str, ArmCard] = MappingProxyType({}),
) -> Iterator[tuple[Side, ...]]:
    """
    Start what must be started, ask every target what it can do, and stop it all at the end, whatever happens.

    `begun_with` are the cards of a run to go on with: model and tool mode are taken from them. Two arms that would be
    sent tool calls in different ways are refused, for they would not be asked the same.
    Raises `LaunchError`, `TargetError`.
    """
    with ExitStack() as stack:
        servers = {
            spec.name: stack.enter_context(_launch(spec, log_folder, audience))
            for spec in specs
            if spec.target == LOCAL_NAME
        }
        sides = tuple(
            _side(
                spec,
                servers.get(spec.name),
                scenario=scenario,
                model=model,
                api_key=api_key,
                audience=audience,
                card=begun_with.get(spec.name),
            )
            for spec in specs
        )
        _refuse_two_tool_modes(sides)
        yield sides


def _launch(spec: ArmSpec, log_folder: Path, audience: Audience) -> RunningServer:
    report = _told_to(audience)
    prepared = prepare(LOCAL, report)
    return start(prepared, log_path=engine_log_path(log_folder, spec.name), report=report)


def _told_to(audience: Audience) -> Report:
    def report(progress: Progress) -> None:
        audience.preparing(progress.step, progress.detail, progress.elapsed_s, ended=progress.ended)

    return report


def _side(
    spec: ArmSpec,
    server: RunningServer | None,
    *,
    scenario: Scenario,
    model: str | None,
    api_key: str | None,
    audience: Audience,
    card: ArmCard | None,
) -> Side:
    url = server.url if server is not None else spec.target
    target = Target.parse(url, model=card.build.model if card else model, api_key=None if server else api_key)
    with Step("asking", _told_to(audience)) as step:
        step.say(f"what {target} is and can do")
        capabilities = asyncio.run(ask(target, speculation_hint=server.build if server else None))
    target = replace(target, model=capabilities.model)
    return Side(
        name=spec.name,
        target=target,
        capabilities=capabilities,
        build=_build(target, capabilities, server),
        tool_mode=card.tool_mode if card else resolve_tool_mode(scenario, capabilities),
        local=server is not None,
    )


def _refuse_two_tool_modes(sides: tuple[Side, ...]) -> None:
    if len({side.tool_mode for side in sides}) > 1:
        modes = ", ".join(f"{side.name} {side.tool_mode}" for side in sides)
        raise TargetError(
            "the arms would be sent tool calls in different ways",
            why=f"{modes}: what one takes, the other refuses or leaves out of its prompt",
            hint="--set tools=text asks both the same",
        )


async def ask(target: Target, speculation_hint: Build | None = None) -> Capabilities:
    """Return what the target can do, with what its metrics page says of speculation and prefix cache."""
    async with Desk(target) as desk:
        capabilities = await discover(desk)
        page = await desk.metrics()
    told: dict[str, Any] = dict(speculation_hint.settings) if speculation_hint else {}
    sample = parse_metrics(page, arm="", at=0.0) if page else None
    changes: dict[str, Any] = {
        "metrics": page is not None,
        "speculation_on": told.get("speculation", sample.speculation_on if sample else None),
        "prefix_cache_on": told.get("prefix_cache", sample.prefix_cache_on if sample else None),
    }
    return msgspec.structs.replace(capabilities, **changes)


def resolve_tool_mode(scenario: Scenario, capabilities: Capabilities) -> Literal["native", "text"]:
    """Return how tool calls are sent; raises `TargetError` if native was asked for and the target cannot."""
    if scenario.tools == "auto":
        return "native" if capabilities.native_tools else "text"
    if scenario.tools == "native" and not capabilities.native_tools:
        raise TargetError(
            f"{capabilities.model} does not take native tool calls",
            why="the server refused a request with tools, or its chat template leaves them out",
            hint="start it with a tool-call parser, or use --set tools=text",
        )
    return scenario.tools


def _build(target: Target, capabilities: Capabilities, server: RunningServer | None) -> Build:
    if server is not None:
        return server.build
    settings = {"speculation": capabilities.speculation_on, "prefix_cache": capabilities.prefix_cache_on}
    return Build(
        engine=capabilities.engine,
        version=capabilities.version,
        model=capabilities.model,
        target=str(target),
        settings={name: on for name, on in settings.items() if on is not None},
    )

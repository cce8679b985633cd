"""The environment card of an arm: what its server, its metrics page, its log and the machine tell of it."""

import re
from collections.abc import Mapping

from soak.client import Desk, Target
from soak.facts import BuildFile, Capabilities, CardEntry, CardSource, EnvironmentCard
from soak.launch import RunningServer
from soak.scrape import settings_of_llama, settings_of_sglang, settings_of_vllm, settings_on_page

_COMMIT = re.compile(r"\+(?:g|git)?([0-9a-f]{7,40})")


async def learn(
    target: Target, capabilities: Capabilities, server: RunningServer | None, file: BuildFile | None
) -> EnvironmentCard:
    """
    Return the card of a server that answers; `server` if we started it, `file` the build file if there is one.

    Where two sources tell a property, the one nearer to the running engine counts: its own answer, its metrics, its
    log, what is installed, what the build file says. A source that does not answer is left out.
    """
    known = server.card() if server else EnvironmentCard(entries=_entries(_stated(file), "build"))
    async with Desk(target) as desk:
        page = await desk.metrics() or ""
        told = await _asked(desk, capabilities.engine)
    answered = {**_answered(capabilities), **told}
    entries = {**known.entries, **_entries(settings_on_page(page), "metrics"), **_entries(answered, "engine")}
    return EnvironmentCard(entries=dict(sorted(entries.items())), packages=known.packages)


async def _asked(desk: Desk, engine: str | None) -> dict[str, str]:
    """Ask the doors behind which engines keep their settings; most servers answer 404, and that is that."""
    if engine == "sglang":
        return settings_of_sglang((await desk.get("/get_server_info")).json())
    if engine == "llama.cpp":
        return settings_of_llama((await desk.get("/props")).json())
    return settings_of_vllm((await desk.get("/server_info?config_format=json")).json()) if engine == "vllm" else {}


def _answered(found: Capabilities) -> dict[str, str]:
    commit = _COMMIT.search(found.version or "")
    return {
        "engine": found.engine or "",
        "engine_version": found.version or "",
        "commit": commit[1] if commit else "",
        "served_model": found.model,
        "context_tokens": str(found.context_tokens or ""),
    }


def _stated(file: BuildFile | None) -> dict[str, str]:
    if file is None:
        return {}
    return {"engine_version": file.version or "", "model": file.model or "", "image": file.image or ""}


def _entries(found: Mapping[str, str], source: CardSource) -> dict[str, CardEntry]:
    return {name: CardEntry(value=value, source=source) for name, value in found.items() if value}

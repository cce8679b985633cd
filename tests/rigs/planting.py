"""The local build with a plugin that plants faults in it, for tests; what can be planted: planted/README.md."""

import json
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from soak.facts import NamedBuild, encode
from soak.launch import LOCAL, Report, prepare, spec_of, start
from soak.scenario import load_build

PLANTED = Path(__file__).parents[1] / "planted"


@dataclass(frozen=True)
class Answer:
    """One answer: its tokens, the logprob of each, the two likeliest tokens' logprobs, and how it ended."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    likeliest: tuple[tuple[float, ...], ...]
    finish_reason: str
    cached_tokens: int


def ask(url: str, prompt: str, *, salt: str | None = None, max_tokens: int = 32, **sampling: Any) -> Answer:
    """Ask the engine at `url`, greedily unless told otherwise; without a `salt` the prefix cache cannot know it."""
    body = {"model": LOCAL.served_model, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens}
    body |= {"cache_salt": salt or uuid.uuid4().hex, "return_token_ids": True, "logprobs": True, "top_logprobs": 2}
    sent = json.dumps(body | {"temperature": 0} | sampling).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", sent, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        told = json.load(reply)
    (choice,) = told["choices"]
    places = choice["logprobs"]["content"]
    return Answer(
        tokens=tuple(choice["token_ids"]),
        logprobs=tuple(place["logprob"] for place in places),
        likeliest=tuple(tuple(top["logprob"] for top in place["top_logprobs"]) for place in places),
        finish_reason=choice["finish_reason"],
        cached_tokens=told["usage"]["prompt_tokens_details"]["cached_tokens"],
    )


@dataclass(frozen=True)
class PlantedEngine:
    """A running engine in which faults are switched on and off."""

    url: str
    switch: Path
    counts: Path

    def plant(self, text: str) -> None:
        """Have the faults of `text` from the engine's next step on; nothing for an empty text."""
        beside = self.switch.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.switch)

    def counted(self) -> dict[str, Any]:
        """Return what was counted since the last switch was seen."""
        return json.loads(self.counts.read_text())

    def fired(self, fault: str) -> int:
        """Return how often the fault happened since then."""
        return self.counted()["fired"].get(fault, 0)

    def ask(self, prompt: str, **given: Any) -> Answer:
        """Ask it, see `ask`."""
        return ask(self.url, prompt, **given)


def planted_build(environment: Mapping[str, str], name: str = "planted", **changes: Any) -> NamedBuild:
    """Return the build of planted/planted.yaml with these variables of the plugin's, wherever tests are run from."""
    file = load_build(PLANTED / "planted.yaml").file
    variables = file.environment | {"PYTHONPATH": str(PLANTED)} | dict(environment)
    return NamedBuild(name=name, file=replace(file, environment=variables, **changes))


def planted_file(folder: Path, text: str) -> str:
    """Write the build with these faults planted in it from its start to `folder`; return the file's name there."""
    (folder / "planted.yaml").write_bytes(encode(planted_build({"SOAK_PLANTED": text}).file))
    return "planted.yaml"


@contextmanager
def planted_engine(folder: Path, report: Report, *, port: int | None = None, **changes: Any) -> Iterator[PlantedEngine]:
    """Start the build with nothing planted; its log, its switch and its counts lie in `folder`."""
    switch, counts = folder / "switch", folder / "counts.json"
    build = planted_build({"SOAK_PLANTED_FILE": str(switch), "SOAK_PLANTED_COUNTS": str(counts)}, **changes)
    switch.write_text("")
    with start(prepare(spec_of(build), report), log_path=folder / "engine.log", port=port, report=report) as server:
        yield PlantedEngine(url=server.url, switch=switch, counts=counts)

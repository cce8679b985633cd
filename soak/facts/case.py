"""One turn taken out of its run to be asked again, what may be changed in the asking, and what came back."""

from dataclasses import asdict
from typing import Any, Literal

import msgspec

from soak.facts.codec import digest_of
from soak.facts.episode import Message
from soak.facts.finding import Judgement
from soak.facts.observation import Observation
from soak.facts.scenario import Sampling

CASE_SCHEMA = "soak.case/1"


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A turn with all that is needed to ask it again and to judge the answer; a JSON file of it is a turn file.

    `messages`, `tools`: what the model saw. `tool_mode`, `sampling`, `seed`, `salt`, `logprobs`, `extra_body`: how it
    was asked. `reference` is the recorded answer to this very prefix, if any; `own_answers` as in
    `classify.prompt_text_of`; `in_flight` how many conversations were asked at once. `observation` and `judgement` are
    what came back when it was first asked, `build` the name of what gave it, `source` where the turn was found. `exact`
    is False where the request that was sent then cannot be made again to the letter, as for a turn that came through
    the proxy.
    """

    schema: str = CASE_SCHEMA
    name: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_mode: Literal["native", "text"] = "native"
    sampling: Sampling = Sampling()
    seed: int | None = None
    salt: str | None = None
    logprobs: int | None = None
    extra_body: dict[str, Any] = {}
    reference: Message | None = None
    reference_tokens: int | None = None
    own_answers: bool = False
    in_flight: int = 1
    observation: Observation | None = None
    judgement: Judgement | None = None
    build: str = ""
    source: str = ""
    exact: bool = True

    @property
    def digest(self) -> str:
        """`sha256:<hex>` over what is asked and how it is judged, not over what came back before."""
        asked = (self.messages, self.tools, self.tool_mode, asdict(self.sampling), self.seed, self.salt)
        return digest_of([CASE_SCHEMA, *asked, self.logprobs, self.extra_body, self.reference, self.own_answers])


class EngineChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    How the server differs from its build; nothing set: as built.

    `speculation`: False is without, a dictionary is another speculative config. `prefix_cache`, `eager`: switched so.
    `flags` are added, and take the place of the same flags; `environment` is added.
    """

    speculation: bool | dict[str, Any] | None = None
    prefix_cache: bool | None = None
    eager: bool | None = None
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = {}

    @property
    def text(self) -> str:
        """What a person reads, such as "no speculation, no prefix cache"; "as built" where nothing is changed."""
        return ", ".join(self._parts()) or "as built"

    def _parts(self) -> list[str]:
        parts = []
        if self.speculation is False:
            parts.append("no speculation")
        elif isinstance(self.speculation, dict):
            parts.append("speculation " + " ".join(f"{name}={value}" for name, value in self.speculation.items()))
        for name, on in (("prefix cache", self.prefix_cache), ("eager", self.eager)):
            parts += [] if on is None else [name if on else f"no {name}"]
        return [*parts, *self.flags, *(f"{name}={value}" for name, value in self.environment.items())]


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    How a case is asked differently; nothing set: as it was.

    `sampling` replaces fields of `Sampling`. `salted`: each repeat with a salt of its own, so that nothing of its
    prompt is cached; `salt`: all with this one, so that they find what was cached under it and nothing else.
    `in_flight` repeats are asked at once. `same_seed`: every repeat with the case's own seed; else each has its own,
    the same in every change, so that changes can be compared repeat by repeat. `among`: what else was asked at the same
    time, by a digest of it.
    """

    sampling: dict[str, Any] = {}
    salted: bool = False
    salt: str | None = None
    in_flight: int = 1
    same_seed: bool = False
    among: str = ""
    extra_body: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """What a person reads, such as "salted, temperature=0, 8 in flight"; "as asked" where nothing is changed."""
        parts = ["salted"] if self.salted else ["a salt of its own"] if self.salt else []
        parts += [f"{name}={value}" for name, value in (self.sampling | self.extra_body).items()]
        parts += [f"{self.in_flight} in flight"] if self.in_flight > 1 else []
        parts += ["same seed"] if self.same_seed else []
        return ", ".join(parts) or "as asked"


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One answer to a case: on which bench (a server, by its name), asked with which change, the how manieth repeat.

    `body` is the digest of the request as sent; repeats count from 0.
    """

    bench: str
    case: str
    change: Change
    repeat: int
    seed: int | None
    body: str
    at: float
    observation: Observation
    judgement: Judgement | None = None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Bench, digest of the case, digest of the change, repeat: unique in a probe."""
        return (self.bench, self.case, digest_of(self.change), self.repeat)

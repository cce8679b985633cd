"""What shrinking a failure came to, and what a reproducer bundle promises."""

import msgspec

from soak.facts.finding import TurnClass


class ShrinkStep(msgspec.Struct, frozen=True, kw_only=True):
    """One smaller form that was tried: what was done, how many of its rounds failed, and whether it was kept."""

    text: str
    rounds: int
    failed: int
    kept: bool
    decided: bool


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked: conversations, messages and characters in all, requests at once."""

    conversations: int
    messages: int
    characters: int
    in_flight: int


class ShrinkFound(msgspec.Struct, frozen=True, kw_only=True):
    """
    What shrinking came to: the failure looked for (that of the turns when they were first asked, else the one that
    came most often; None: nothing failed), how often it came before and in the smallest form that was kept, and every
    step. The last count is of the rounds by which the form was chosen, which flatter it; `fresh_failed` of
    `fresh_rounds` is of rounds that chose nothing, with the 95 % interval (Wilson) of that rate: what is told.
    `given_up` smaller forms did not fail in such rounds. `files` are turn files of the smallest form.
    """

    schema: str = "soak.probe/1"
    probe: str = "shrink"
    case: str
    failure: TurnClass | None
    before: Size
    after: Size
    first_failed: int
    first_rounds: int
    last_failed: int
    last_rounds: int
    steps: tuple[ShrinkStep, ...]
    requests: int
    fresh_failed: int = 0
    fresh_rounds: int = 0
    fresh_low: float | None = None
    fresh_high: float | None = None
    given_up: int = 0
    files: tuple[str, ...] = ()
    text: str = ""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """
    `expected.json` of a bundle: of `asked` answers `failed` were of the class `failure`, and the bundle's own plain
    checker calls `script_failed` of them so. It will call between `low` and `high` so in `repeats` further rounds,
    each of which asks every conversation once (95 % prediction interval, Jeffreys). It calls `checker_agrees` of
    `checked` answers as soak does; these and `script_failed` are counted with each half of the answers judged by what
    the other half taught. `early_texts` are SHA-256 digests of answers that stopped early, and
    `short_chars` the length below which a stop is early (0: no length tells).
    """

    schema: str = "soak.repro/1"
    failure: TurnClass
    asked: int
    failed: int
    script_failed: int
    classes: dict[TurnClass, int]
    repeats: int
    low: int
    high: int
    in_flight: int
    checked: int
    checker_agrees: int
    early_texts: tuple[str, ...] = ()
    short_chars: int = 0
    soak_version: str = ""


class ReproFound(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was written: where, what it promises, and how it was made smaller (None: it was not)."""

    schema: str = "soak.probe/1"
    probe: str = "repro"
    file: str
    promise: Promise
    shrink: ShrinkFound | None = None

"""
Did the arm test what it claims to test? One whose speculation was silently off, or whose prefix cache never hit,
tested nothing and is invalid: its verdict is unknown, whatever its turns look like.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from soak.check.engine import EngineDelta
from soak.check.turns import TurnFact
from soak.facts import ArmCard, EngineSample, Expect

MIN_SHARED_TOKENS = 64
"""A prefix above this many tokens spans several cache blocks, so the next turn of its conversation should hit."""

_Expected = Literal["auto"] | bool


class Validity(NamedTuple):
    """Why the arm is invalid (empty: it is valid), and what could not be checked."""

    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Feature(NamedTuple):
    """What is known of one feature: what the scenario expects, what launched it, what the engine says."""

    name: str
    expected: _Expected
    configured: bool | None
    reported: bool | None


def validity(
    card: ArmCard, expect: Expect, samples: Sequence[EngineSample], delta: EngineDelta, turns: Sequence[TurnFact]
) -> Validity:
    """Return whether the arm's run means anything. An arm without a finished turn is not judged here."""
    if not any(turn.finished for turn in turns):
        return Validity()
    invalid: list[str] = []
    notes: list[str] = []
    for found in (_speculation(card, expect, samples, delta), _prefix_cache(card, expect, samples, delta, turns)):
        invalid += found.invalid
        notes += found.notes
    if not samples:
        notes.insert(0, "engine metrics were not read: acceptance and cache hits are unknown")
    return Validity(tuple(invalid), tuple(notes))


def _speculation(card: ArmCard, expect: Expect, samples: Sequence[EngineSample], delta: EngineDelta) -> Validity:
    feature = _Feature(
        "speculation",
        expect.speculation,
        True if card.build.speculative else _setting(card, "speculation"),
        _reported(sample.speculation_on for sample in samples)
        if samples
        else (card.capabilities.speculation_on if card.capabilities else None),
    )
    off = _contradiction(feature, moved=bool(delta.drafts or delta.draft_tokens))
    if off is not None:
        return Validity((off,))
    if not _is_on(feature):
        return Validity()
    if delta.drafts is None and delta.draft_tokens is None:
        return _not_measured(feature, "the engine's draft counters")
    if not (delta.drafts or delta.draft_tokens):
        return Validity(("speculation is on, but the draft counter did not move during the run: nothing was drafted",))
    return Validity()


def _prefix_cache(
    card: ArmCard, expect: Expect, samples: Sequence[EngineSample], delta: EngineDelta, turns: Sequence[TurnFact]
) -> Validity:
    feature = _Feature(
        "prefix cache",
        expect.prefix_cache,
        _setting(card, "prefix_cache"),
        _reported(sample.prefix_cache_on for sample in samples)
        if samples
        else (card.capabilities.prefix_cache_on if card.capabilities else None),
    )
    off = _contradiction(feature, moved=bool(delta.prefix_hits))
    if off is not None:
        return Validity((off,))
    if not _is_on(feature):
        return Validity()
    repeats = repeated_prefixes(turns)
    if delta.prefix_hits is None:
        return _not_measured(feature, "the engine's prefix-cache counters") if repeats else Validity()
    if repeats and not delta.prefix_hits:
        return Validity(
            (
                f"the prefix cache is on, but its hits did not rise although {repeats} turns began with the prefix"
                " of a turn before them",
            )
        )
    return Validity()


def repeated_prefixes(turns: Iterable[TurnFact]) -> int:
    """Return how many finished turns began with what the one before them had sent (more than 64 tokens)."""
    conversations: dict[tuple[str, int], list[TurnFact]] = defaultdict(list)
    for turn in turns:
        if turn.finished:
            conversations[turn.key.episode, turn.key.pass_].append(turn)
    return sum(_repeats(conversation) for conversation in conversations.values())


def _repeats(conversation: list[TurnFact]) -> int:
    conversation.sort(key=lambda turn: turn.key.turn)
    return sum((before.prompt or 0) > MIN_SHARED_TOKENS for before in conversation[:-1])


def _is_on(feature: _Feature) -> bool:
    """Return whether the feature should be working: as expected, else as reported by the engine, else as configured."""
    if feature.expected != "auto":
        return feature.expected
    return bool(feature.reported if feature.reported is not None else feature.configured)


def _contradiction(feature: _Feature, *, moved: bool) -> str | None:
    """Return why expectation, configuration and engine do not fit together; None if they do."""
    if feature.expected is False:
        shows = "its counters moved" if moved else "the engine says that it is on"
        return f"{feature.name} should be off by the scenario, but {shows}" if moved or feature.reported else None
    if feature.reported is not False or moved:
        return None
    if feature.expected is True:
        return f"{feature.name} should be on by the scenario, but the engine says that it is off"
    if feature.configured:
        return f"{feature.name} is on in the build's settings, but the engine says that it is off"
    return None


def _not_measured(feature: _Feature, counters: str) -> Validity:
    """An expectation that cannot be checked makes the arm invalid; the engine's own word alone makes a note."""
    text = f"{feature.name} could not be confirmed: {counters} were not read or are not exported"
    return Validity(invalid=(text,)) if feature.expected is True else Validity(notes=(text,))


def _setting(card: ArmCard, name: str) -> bool | None:
    value = card.build.settings.get(name)
    return value if isinstance(value, bool) else None


def _reported(values: Iterable[bool | None]) -> bool | None:
    """Return the last word of the metrics page; None if it never said."""
    said = [value for value in values if value is not None]
    return said[-1] if said else None

"""
Did the arm test what it claims to test? One whose speculation was silently off, or whose prefix cache never hit,
tested nothing and is invalid: its verdict is unknown, whatever its turns look like.

Three questions to each of the two features: do scenario, build and engine say the same of it; did its counter move at
all; and did it go on moving? The last is asked of every stretch between readings of the metrics page in which the
counter stood still (`stretches`), since what is lost in mid-run leaves a total that looks well. A stretch speaks
against the arm only if enough was done wholly within it:

- a draft head (`mtp`, `eagle` and the like) proposes at every step of every answer, so 200 generated tokens without a
  draft cannot be;
- a lookup (`ngram`, `suffix`) proposes only where the text repeats. The embedded local build, which looks for pairs of
  tokens, makes 0 to 11 drafts in 96 tokens of a rambling answer; were every second such answer without any, twenty of
  them in a row (2,000 tokens) would be one chance in a million. Only answers classed ok count: word salad repeats
  nothing, and a build that makes salad is to fail and not to be called invalid. A method that is not known (the build
  was not started by us) is taken for a lookup;
- the prefix cache is hit by every turn that goes on from the one before it, unless that has been pushed out since. A
  turn may miss; twenty in a row whose forerunners ended in the same stretch say that nothing is kept, be it switched
  off or far too small for this load.

The first token of an answer comes from reading the prompt, without a draft, and is left out of all counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from soak.check.engine import EngineDelta
from soak.check.engine_limits import ARM_DRAFT_TOKENS, NONE_RATE
from soak.check.stretches import Stretch, Timeline, stretches
from soak.check.turns import TurnFact
from soak.check.wording import duration, number, percent
from soak.facts import ArmCard, EngineSample, Expect

MIN_SHARED_TOKENS = 64
"""A prefix above this many tokens spans several cache blocks, so the next turn of its conversation should hit."""

HEAD_TOKENS = 200
"""A stretch without a draft in which so many tokens were generated speaks against a draft head."""

LOOKUP_TOKENS = 2_000
"""The same for a method that drafts only where the text repeats, in tokens of answers classed ok."""

REPEATED_TURNS = 20
"""A stretch without a hit in which so many turns went on from a turn of the same stretch speaks against the cache."""

_DRAFT_HEADS = ("mtp", "eagle", "medusa", "mlp_speculator", "draft_model", "nextn", "standalone", "dflash")

_Expected = Literal["auto"] | bool


class Validity(NamedTuple):
    """Why the arm is invalid (empty: it is valid), whether each feature was on, and what could not be checked."""

    invalid: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Feature(NamedTuple):
    """What is known of one feature: what the scenario expects, what launched it, what the engine said, in order."""

    name: str
    expected: _Expected
    configured: bool | None
    said: tuple[bool | None, ...]

    @property
    def reported(self) -> bool | None:
        """The engine's last word; None if it never said."""
        words = self._words
        return words[-1] if words else None

    @property
    def lost(self) -> str | None:
        """That the engine said on and later off, as a sentence; None if it did not."""
        if not any(before and not after for before, after in pairwise(self._words)):
            return None
        return f"{self.name} was on and then off during the run, as the engine says itself"

    @property
    def _words(self) -> list[bool]:
        return [word for word in self.said if word is not None]


def validity(
    card: ArmCard, expect: Expect, samples: Sequence[EngineSample], delta: EngineDelta, turns: Sequence[TurnFact]
) -> Validity:
    """Return whether the arm's run means anything. An arm without a finished turn is not called invalid."""
    speculation = _speculation_feature(card, expect, samples)
    cache = _prefix_cache_feature(card, expect, samples)
    states = (_speculation_state(speculation, delta), _prefix_cache_state(cache, delta))
    if not any(turn.finished for turn in turns):
        return Validity(states=states)
    unread = () if samples else ("engine metrics were not read: acceptance and cache hits are unknown",)
    found = (
        _speculation(speculation, card, samples, delta, turns),
        _prefix_cache(cache, samples, delta, turns),
    )
    return Validity(
        invalid=tuple(why for one in found for why in one.invalid),
        states=states,
        notes=(*unread, *(note for one in found for note in one.notes)),
    )


def _speculation_feature(card: ArmCard, expect: Expect, samples: Sequence[EngineSample]) -> _Feature:
    asked = card.capabilities.speculation_on if card.capabilities else None
    return _Feature(
        "speculation",
        expect.speculation,
        True if card.build.speculative else _setting(card, "speculation"),
        tuple(sample.speculation_on for sample in samples) if samples else (asked,),
    )


def _prefix_cache_feature(card: ArmCard, expect: Expect, samples: Sequence[EngineSample]) -> _Feature:
    asked = card.capabilities.prefix_cache_on if card.capabilities else None
    return _Feature(
        "prefix cache",
        expect.prefix_cache,
        _setting(card, "prefix_cache"),
        tuple(sample.prefix_cache_on for sample in samples) if samples else (asked,),
    )


def _speculation(
    feature: _Feature, card: ArmCard, samples: Sequence[EngineSample], delta: EngineDelta, turns: Sequence[TurnFact]
) -> Validity:
    wrong = feature.lost or _contradiction(feature, moved=_drafted(delta))
    if wrong is not None:
        return Validity((wrong,))
    if not _is_on(feature):
        return Validity(notes=tuple(_refused(delta)))
    if delta.drafts is None and delta.draft_tokens is None:
        return _not_measured(feature, "the engine's draft counters")
    if not _drafted(delta):
        return Validity(("speculation is on, but the draft counter did not move during the run: nothing was drafted",))
    return Validity(tuple(_undrafted(card, samples, turns)), notes=tuple(_refused(delta)))


def _refused(delta: EngineDelta) -> Iterator[str]:
    """Yield that hardly a draft token was accepted, where so many were drafted that it means something."""
    drafted, accepted = delta.draft_tokens, delta.accepted_tokens
    if drafted is None or accepted is None or drafted < ARM_DRAFT_TOKENS or accepted >= NONE_RATE * drafted:
        return
    yield (
        f"drafts are almost never accepted: {number(accepted)} of {number(drafted)} draft tokens"
        f" ({percent(accepted / drafted)}); the draft head or the sampler may be broken"
    )


def _drafted(delta: EngineDelta) -> bool:
    return bool(delta.drafts or delta.draft_tokens)


def _undrafted(card: ArmCard, samples: Sequence[EngineSample], turns: Sequence[TurnFact]) -> Iterator[str]:
    """Yield the longest stretch without a draft in which there should have been one."""
    head = _has_draft_head(card)
    timeline = Timeline(turn for turn in turns if head or turn.class_ == "ok")
    stills = [
        (stretch, tokens)
        for stretch in stretches(samples, _draft_counter)
        if (tokens := sum(max((turn.completion or 0) - 1, 0) for turn in timeline.within(stretch)))
        >= (HEAD_TOKENS if head else LOOKUP_TOKENS)
    ]
    if stills:
        stretch, tokens = max(stills, key=lambda still: still[1])
        yield _still("speculation", "draft counter", stretch, samples, f"{tokens:,} tokens were generated")


def _draft_counter(sample: EngineSample) -> float | None:
    return sample.drafts if sample.drafts is not None else sample.draft_tokens


def _has_draft_head(card: ArmCard) -> bool:
    """Return whether the build is known to draft at every step, whatever the text."""
    method = str((card.build.speculative or {}).get("method") or "").lower()
    return any(name in method for name in _DRAFT_HEADS)


def _prefix_cache(
    feature: _Feature, samples: Sequence[EngineSample], delta: EngineDelta, turns: Sequence[TurnFact]
) -> Validity:
    wrong = feature.lost or _contradiction(feature, moved=bool(delta.prefix_hits))
    if wrong is not None:
        return Validity((wrong,))
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
    return Validity(tuple(_unhit(samples, turns)))


def _unhit(samples: Sequence[EngineSample], turns: Sequence[TurnFact]) -> Iterator[str]:
    """Yield the worst stretch without a hit in which there should have been one."""
    timeline = Timeline(turns)
    stills = [
        (stretch, repeats)
        for stretch in stretches(samples, lambda sample: sample.prefix_hits)
        if (repeats := repeated_prefixes(timeline.within(stretch))) >= REPEATED_TURNS
    ]
    if stills:
        stretch, repeats = max(stills, key=lambda still: still[1])
        done = f"{repeats} turns began with the prefix of a turn before them"
        yield _still("the prefix cache", "hit counter", stretch, samples, done)


def _still(what: str, counter: str, stretch: Stretch, samples: Sequence[EngineSample], done: str) -> str:
    after = duration(stretch.begin - samples[0].at)
    return (
        f"{what} stopped working during the run: after {after} its {counter} stood still for"
        f" {duration(stretch.length_s)}, in which {done}"
    )


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


def _speculation_state(feature: _Feature, delta: EngineDelta) -> str:
    """Return whether speculation was on, with its counters."""
    drafts, tokens, accepted = delta.drafts, delta.draft_tokens, delta.accepted_tokens
    told = f"{number(drafts)} drafts, {number(accepted)} of {number(tokens)} draft tokens accepted"
    return _state(feature, _drafted(delta), None if drafts is None and tokens is None else told)


def _prefix_cache_state(feature: _Feature, delta: EngineDelta) -> str:
    """Return whether the prefix cache was on, with its counters."""
    told = f"hits {number(delta.prefix_hits)} of {number(delta.prefix_queries)} tokens"
    return _state(feature, bool(delta.prefix_hits), None if delta.prefix_hits is None else told)


def _state(feature: _Feature, moved: bool, told: str | None) -> str:
    """Return "NAME: on|off|unknown" with the counters, and what that leaves open."""
    on = True if moved else feature.reported
    if on is None and feature.configured is False:
        on = False
    word = "unknown" if on is None else ("on" if on else "off")
    counters = told or "no counters were read"
    return f"{feature.name}: {word} ({counters})" + ("" if on else ": this run says nothing about it")

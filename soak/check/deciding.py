"""
May the run stop? Fed with each record as it ends, says so once it is decided, or once it cannot be within the budget.

Evidence is counted conversation by conversation, when both arms' turns of one have ended: only then does it hold
whatever happened inside (see `stats.sequential`), so one may look at it as often as one likes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from soak.check.classes import CLASS_SETS
from soak.check.evidence import direction_of
from soak.check.wording import TITLES, percent, rounded_up, two_digits
from soak.facts import Decide, Record, TurnClass, TurnKey
from soak.stats import DifferenceMeter, EvidenceMeter

_LOOKS_FIRST = 5
"""Conversations before it is asked whether the budget will do: before them, no rate is known well enough to give up."""

_KINDNESS = 10
"""Beta is shared among this many looks: to give up takes rates that beta / 10 speaks against."""

Outcome = Literal["improvement", "regression", "equivalent", "undecidable", "good", "bad", "measured"]


class Decision(NamedTuple):
    """What came out, about which class, and the sentence to say it with."""

    outcome: Outcome
    class_: str
    text: str


class Watcher(Protocol):
    """What may end a run by its evidence: told of each turn as it begins and as it ends."""

    def begun(self, key: TurnKey) -> None:
        """Take note that a turn is about to be sent."""
        ...

    def take(self, record: Record, used_s: float = 0.0, /) -> Decision | None:
        """Take the end of one turn; returns the decision at the record that brings it and None else."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the budget allows: `turns` per arm, or `seconds` of run time; neither: no end is known."""

    turns: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class _Talk:
    """A conversation in progress: turns left per arm, and the class of each finished turn by arm."""

    left: dict[str, int]
    classes: dict[str, dict[int, TurnClass]]


@dataclass(slots=True)
class _Question:
    """One class: what its evidence has come to."""

    members: frozenset[str]
    evidence: EvidenceMeter = field(default_factory=EvidenceMeter)
    difference: DifferenceMeter = field(default_factory=DifferenceMeter)


class Decider:
    """
    Watches a run with two arms. Pure: no clock, no I/O; memory grows with the conversations in progress only.

    `arms`: baseline, candidate. `turns_of` tells how many turns each episode has. Records of earlier sittings are fed
    first, in any order; a conversation that is never finished is never counted.
    """

    def __init__(self, decide: Decide, *, arms: tuple[str, str], turns_of: Mapping[str, int], allowed: Allowed) -> None:
        self._decide = decide
        self._arms = arms
        self._turns_of = turns_of
        self._allowed = allowed
        self._questions = {name: _Question(CLASS_SETS[name]) for name in decide.classes}
        self._open: dict[tuple[str, int], _Talk] = {}
        self._conversations = 0
        self._pairs = 0
        self.decision: Decision | None = None

    @property
    def bar(self) -> float:
        """The e-value that decides: 1/alpha times the classes asked about."""
        return len(self._questions) / self._decide.alpha

    def begun(self, key: TurnKey) -> None:
        """Nothing depends on when a turn began: conversations count when all their turns have ended."""

    def take(self, record: Record, used_s: float = 0.0) -> Decision | None:
        """
        Take the end of one turn; `used_s` are the seconds of the budget used so far.

        Returns the decision at the record that brings it and None else. Turns broken off (indeterminate) are not an
        end: they are offered again.
        """
        if record.outcome == "indeterminate" or record.key.arm not in self._arms:
            return None
        talk = self._talk_of(record)
        talk.left[record.key.arm] -= 1
        if record.outcome == "finished" and record.judgement is not None:
            talk.classes[record.key.arm][record.key.turn] = record.judgement.class_
        if any(left > 0 for left in talk.left.values()):
            return None
        del self._open[record.key.episode, record.key.pass_]
        self._close(talk)
        if self.decision is None:
            self.decision = self._decided(used_s)
            return self.decision
        return None

    def e_values(self) -> dict[str, float]:
        """Return the evidence about each class so far."""
        return {name: math.exp(min(asked.evidence.log_e, 600.0)) for name, asked in self._questions.items()}

    def _talk_of(self, record: Record) -> _Talk:
        key = record.key.episode, record.key.pass_
        if key not in self._open:
            turns = self._turns_of.get(record.key.episode, 0)
            self._open[key] = _Talk(dict.fromkeys(self._arms, turns), {arm: {} for arm in self._arms})
        return self._open[key]

    def _close(self, talk: _Talk) -> None:
        """Count a conversation whose turns have all ended, over the turns that both arms finished."""
        first, second = (talk.classes[arm] for arm in self._arms)
        both = first.keys() & second.keys()
        self._conversations += 1
        self._pairs += len(both)
        for asked in self._questions.values():
            baseline = sum(first[turn] in asked.members for turn in both)
            candidate = sum(second[turn] in asked.members for turn in both)
            asked.difference.add(len(both), baseline, candidate)
            if baseline != candidate:
                asked.evidence.add(candidate - baseline)

    def _decided(self, used_s: float) -> Decision | None:
        for place, (name, asked) in enumerate(self._questions.items()):
            direction = direction_of(asked.evidence.direction)
            told = asked.evidence.log_e >= math.log(self.bar)
            if told and direction is not None and (direction == "regression" or place == 0):
                return Decision(direction, name, self._told(name, asked, direction))
        return self._equivalent() or self._undecidable(used_s)

    def _told(self, name: str, asked: _Question, direction: str) -> str:
        e_value = two_digits(math.exp(min(asked.evidence.log_e, 600.0)))
        return (
            f"decided, {direction}: {self._counts(name, asked)}; anytime evidence E = {e_value}, {self.bar:g} decides"
        )

    def _counts(self, name: str, asked: _Question) -> str:
        seen = asked.difference.seen
        return f"{TITLES[name]} {seen.baseline} → {seen.candidate} of {seen.turns:,} paired turns"

    def _equivalent(self) -> Decision | None:
        """Return that every class asked about is within the margin, if one was stated."""
        margin = self._decide.margin
        if margin is None or not all(self._within(asked, margin) for asked in self._questions.values()):
            return None
        name, asked = next(iter(self._questions.items()))
        text = f"decided, equivalent within {percent(margin)}: {self._counts(name, asked)}"
        return Decision("equivalent", name, text)

    def _within(self, asked: _Question, margin: float) -> bool:
        return asked.difference.interval(self._decide.alpha).within(margin)

    def _undecidable(self, used_s: float) -> Decision | None:
        """Return that the budget will not do for any class, kindly looked at, and what it would take at this rate."""
        allowed = self._allowed_pairs(used_s)
        if allowed is None or self._conversations < _LOOKS_FIRST or not self._pairs:
            return None
        factor = allowed / self._pairs
        if any(self._reachable(asked, factor) for asked in self._questions.values()):
            return None
        name, asked = next(iter(self._questions.items()))
        times = asked.evidence.factor_needed(self.bar)
        needed = (
            "the arms are alike so far; were they so in truth, no number of turns would tell them apart"
            if times is None
            else f"at this rate {rounded_up(math.ceil(times * self._pairs))} turns per arm are needed"
        )
        text = (
            f"no decision possible within the budget: {self._counts(name, asked)};"
            f" {needed}, the budget allows {allowed:,.0f}"
        )
        return Decision("undecidable", name, text)

    def _allowed_pairs(self, used_s: float) -> float | None:
        """Return the pairs that the whole budget gives; for a time, at the pace so far."""
        if self._allowed.turns is not None:
            return float(self._allowed.turns)
        if self._allowed.seconds is None or used_s <= 0:
            return None
        return self._pairs * max(1.0, self._allowed.seconds / used_s)

    def _reachable(self, asked: _Question, factor: float) -> bool:
        decide = self._decide
        if asked.evidence.reachable(self.bar, factor, 1 - decide.beta / _KINDNESS):
            return True
        return decide.margin is not None and asked.difference.narrowest(factor, decide.alpha) < decide.margin

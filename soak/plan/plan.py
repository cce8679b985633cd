"""
The plan: passes through the corpus, conversation after conversation, each turn for every arm.

Each pass has its own order of episodes, mixed by the seed so that episodes of one repository are kept apart where
possible. The budget's `turns` are counted in that order, conversation by conversation, for each arm; a time budget
gives an endless plan.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from soak.errors import CorpusError, UsageError
from soak.facts import Episode, Scenario, Turn, TurnKey
from soak.plan.seeds import number_from, salt_for


def _never(_: TurnKey) -> bool:
    return False


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """
    One trip through an episode: `turns` are those that at least one arm still lacks, in order.

    `ordinal` numbers the conversations of the whole plan from 0, whatever is done already. `turn_limit`: how many turns
    it may have where they are made at run time; `turns` are then those of the record.
    """

    episode: Episode
    pass_: int
    ordinal: int
    turns: tuple[Turn, ...]
    salt: str | None = None
    turn_limit: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run will send: a pure function of scenario, episodes and arms. Made by `make_plan`."""

    scenario: Scenario
    episodes: tuple[Episode, ...]
    arms: tuple[str, ...]

    @property
    def endless(self) -> bool:
        """Whether the budget is a time, so that the corpus is looped as long as it lasts."""
        budget = self.scenario.budget
        return budget.passes is None and budget.turns is None

    @property
    def size(self) -> tuple[int, int] | None:
        """
        Turns for each arm and passes (the last may be cut short); None for a time budget.

        Where turns are made at run time, the turns are an upper bound.
        """
        budget = self.scenario.budget
        a_pass = sum(turn_limit(self.scenario, episode) for episode in self.episodes)
        if budget.passes is not None:
            return a_pass * budget.passes, budget.passes
        if budget.turns is not None:
            return budget.turns, -(-budget.turns // a_pass)
        return None

    def conversations(self, done: Callable[[TurnKey], bool] = _never) -> Iterator[Conversation]:
        """
        Yield the conversations that have turns left, passes in order; without end for a time budget.

        A turn is left if any arm is not `done` with it. On an endless plan `done` must not hold for ever, and the
        caller stops asking when time is up.
        """
        for conversation in self._all():
            left = tuple(turn for turn in conversation.turns if not self._done(conversation, turn, done))
            if left:
                yield msgspec.structs.replace(conversation, turns=left)

    def pass_order(self, pass_: int) -> tuple[Episode, ...]:
        """Return all episodes in the order of this pass."""
        return tuple(_order(self.episodes, self.scenario.seed, pass_))

    def _done(self, conversation: Conversation, turn: Turn, done: Callable[[TurnKey], bool]) -> bool:
        return all(done(_key(conversation, turn, arm)) for arm in self.arms)

    def _all(self) -> Iterator[Conversation]:
        """Yield every conversation of the plan, cut where a budget of turns ends."""
        scenario = self.scenario
        left = scenario.budget.turns
        ordinal = 0
        passes = itertools.count() if scenario.budget.passes is None else range(scenario.budget.passes)
        for pass_ in passes:
            for episode in self.pass_order(pass_):
                limit = turn_limit(scenario, episode)
                limit = limit if left is None else min(limit, left)
                turns = episode.turns[:limit]
                salt = salt_for(scenario.salt, scenario.seed, episode.id, pass_)
                if turns:
                    yield Conversation(
                        episode=episode, pass_=pass_, ordinal=ordinal, turns=turns, salt=salt, turn_limit=limit
                    )
                ordinal += 1
                if left is not None:
                    left -= limit
                    if left == 0:
                        return


def make_plan(scenario: Scenario, episodes: Sequence[Episode], arms: Sequence[str]) -> Plan:
    """
    Return the plan of a run.

    Raises `UsageError` if there is no arm or a name is given twice, `CorpusError` if there is no turn to send or two
    episodes have the same id.
    """
    if not arms or len(set(arms)) != len(arms):
        raise UsageError("the arms cannot be used", why=f"their names are {list(arms)}", hint="give each arm a name")
    ids = [episode.id for episode in episodes]
    if len(set(ids)) != len(ids):
        raise CorpusError("two episodes have the same id", why="a turn would have two meanings", hint="rename one")
    if not any(episode.turns for episode in episodes):
        raise CorpusError(
            "the corpus has no turn to replay",
            why=f"none of its {len(episodes)} episodes has a model call in it",
            hint="look at it with: soak corpus check",
        )
    return Plan(scenario=scenario, episodes=tuple(episodes), arms=tuple(arms))


def turn_limit(scenario: Scenario, episode: Episode) -> int:
    """Return how many turns a conversation may have: those of the record, or, live, `max_turns` times as many."""
    recorded = len(episode.turns)
    return recorded if scenario.replay == "recorded" else math.ceil(recorded * scenario.live.max_turns)


def arm_order(conversation: Conversation, turn: Turn, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the order in which a turn goes to the arms: AB and BA in turn, along and across conversations."""
    shift = (conversation.ordinal + turn.index) % len(arms)
    return (*arms[shift:], *arms[:shift])


def _key(conversation: Conversation, turn: Turn, arm: str) -> TurnKey:
    return TurnKey(episode=conversation.episode.id, turn=turn.index, pass_=conversation.pass_, arm=arm)


def _order(episodes: Sequence[Episode], seed: int, pass_: int) -> Iterator[Episode]:
    """Yield the episodes of one pass: shuffled, and never two of one repository in a row where that can be had."""
    shuffled = sorted(episodes, key=lambda episode: number_from("order", seed, pass_, episode.id))
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in reversed(shuffled):
        groups[_repository(episode)].append(episode)
    last = ""
    for _ in shuffled:
        name = max(groups, key=lambda group: (group != last or len(groups) == 1, len(groups[group])))
        yield groups[name].pop()
        if not groups[name]:
            del groups[name]
        last = name


def _repository(episode: Episode) -> str:
    """Return what an episode works on, as far as its importer knew; else its own id, so that it groups with none."""
    for name in ("repository", "repo"):
        value = episode.meta.get(name)
        if isinstance(value, str) and value:
            return f"repository {value}"
    return f"episode {episode.id}"

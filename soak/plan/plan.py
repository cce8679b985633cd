"""
The plan: passes through the corpus, conversation after conversation, each turn for every arm.

Each pass has its own order of episodes, mixed by the seed so that episodes of one repository are kept apart where
possible. With `load.overlap` an episode is gone through by several siblings in one pass (`plan.shapes`), one after the
other in the plan and together in flight. The budget's `turns` are counted in that order, conversation by conversation,
for each arm; a time budget gives an endless plan.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from soak.errors import CorpusError, UsageError
from soak.facts import Episode, Scenario, Turn, TurnKey
from soak.plan.canaries import with_recall, word_for
from soak.plan.seeds import number_from, salt_for
from soak.plan.shapes import branch_of, sent_by, siblings_of


def _never(_: TurnKey) -> bool:
    return False


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """
    One trip through an episode: `turns` are those that at least one arm still lacks, in order.

    `ordinal` numbers the conversations of the whole plan from 0, whatever is done already. `turn_limit`: how many turns
    it may have where they are made at run time; `turns` are then those of the record.

    `trip` counts passes through the corpus; of siblings on one prefix (`together` of them have turns left) each has a
    pass number of its own. `branch` is the first turn that siblings send. `word` is the conversation's secret word.
    """

    episode: Episode
    pass_: int
    ordinal: int
    turns: tuple[Turn, ...]
    salt: str | None = None
    turn_limit: int = 0
    trip: int = 0
    sibling: int = 0
    together: int = 1
    branch: int | None = None
    word: str | None = None


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
        a_pass = sum(self.turns_sent(episode) * self.trips(episode) for episode in self.episodes)
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
        for _, siblings in itertools.groupby(self._all(), key=lambda one: (one.trip, one.episode.id)):
            left = [
                msgspec.structs.replace(one, turns=turns)
                for one in siblings
                if (turns := tuple(turn for turn in one.turns if not self._done(one, turn, done)))
            ]
            for one in left:
                yield msgspec.structs.replace(one, together=len(left)) if len(left) > 1 else one

    def branch(self, episode: Episode) -> int | None:
        """Return the first turn that an episode's siblings send; None where it is gone through once."""
        return branch_of(self.scenario.load, self.scenario.seed, episode)

    def trips(self, episode: Episode) -> int:
        """Return how many conversations an episode makes in one pass."""
        return 1 if self.branch(episode) is None else siblings_of(self.scenario.load)

    def turns_sent(self, episode: Episode) -> int:
        """Return how many turns each of its conversations may have."""
        return turn_limit(self.scenario, episode) - (self.branch(episode) or 0)

    def a_pass(self, trip: int) -> Iterator[Conversation]:
        """Yield all conversations of one pass, whatever the budget and whatever is done; ordinals are its own."""
        for ordinal, (episode, sibling) in enumerate(self._trips_of(trip)):
            yield self._trip(episode, trip, sibling, ordinal, self.turns_sent(episode))

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
            for episode, sibling in self._trips_of(pass_):
                limit = self.turns_sent(episode)
                limit = limit if left is None else min(limit, left)
                conversation = self._trip(episode, pass_, sibling, ordinal, limit)
                if conversation.turns:
                    yield conversation
                ordinal += 1
                if left is not None:
                    left -= limit
                    if left == 0:
                        return

    def _trips_of(self, trip: int) -> Iterator[tuple[Episode, int]]:
        for episode in self.pass_order(trip):
            for sibling in range(self.trips(episode)):
                yield episode, sibling

    def _trip(self, episode: Episode, trip: int, sibling: int, ordinal: int, limit: int) -> Conversation:
        scenario, branch = self.scenario, self.branch(episode)
        pass_ = trip * siblings_of(scenario.load) + sibling
        return Conversation(
            episode=episode,
            pass_=pass_,
            ordinal=ordinal,
            turns=sent_by(episode, branch)[:limit],
            salt=salt_for(scenario.salt, scenario.seed, episode.id, trip),  # one for siblings, or they share nothing
            turn_limit=limit,
            trip=trip,
            sibling=sibling,
            branch=branch,
            word=word_for(scenario.seed, episode.id, pass_) if scenario.canaries else None,
        )


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
    if scenario.canaries:
        episodes = [with_recall(episode, scenario.seed) for episode in episodes]
    return Plan(scenario=scenario, episodes=tuple(episodes), arms=tuple(arms))


def turn_limit(scenario: Scenario, episode: Episode) -> int:
    """
    Return how many turns a conversation may have: those of the record, or, live, `max_turns` times as many.

    An agent's task has one in the plan, whatever it takes: a budget of turns is one of tasks there.
    """
    recorded = len(episode.turns)
    return math.ceil(recorded * scenario.live.max_turns) if scenario.replay == "live" else recorded


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

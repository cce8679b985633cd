"""A plan is a pure function, and resuming is subtraction."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.planned import turn_keys

from soak.facts import Budget, Episode, Message, Scenario, TurnKey, make_episode
from soak.plan import Plan, arm_order, make_plan, seed_for


def episode(name: str, turns: int, repository: int) -> Episode:
    messages = [Message(role="system", content=name)]
    for _ in range(turns):
        messages += [Message(role="user", content="u"), Message(role="assistant", content="a")]
    return make_episode(name, messages, meta={"repository": f"r{repository}"})


CORPORA = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=6).map(
    lambda parts: [episode(f"e{i}", turns, repository) for i, (turns, repository) in enumerate(parts)]
)
BUDGETS = st.one_of(
    st.integers(1, 3).map(lambda n: Budget(passes=n)), st.integers(1, 40).map(lambda n: Budget(turns=n))
)
ARMS = st.sampled_from([["a"], ["a", "b"], ["x", "y", "z"]])


def plan_of(corpus: list[Episode], budget: Budget, arms: list[str], seed: int = 7) -> Plan:
    scenario = Scenario(name="n", question="q", duration="d", corpus="c", budget=budget, seed=seed)
    return make_plan(scenario, corpus, arms)


def keys_left(plan: Plan, done: set[TurnKey]) -> list[TurnKey]:
    return [
        key
        for conversation in plan.conversations(done.__contains__)
        for turn in conversation.turns
        for arm in arm_order(conversation, turn, plan.arms)
        if (key := TurnKey(episode=conversation.episode.id, turn=turn.index, pass_=conversation.pass_, arm=arm))
        not in done
    ]


@settings(max_examples=100, deadline=None)
@given(CORPORA, BUDGETS, ARMS, st.data())
def test_done_plus_remaining_is_the_plan(
    corpus: list[Episode], budget: Budget, arms: list[str], data: st.DataObject
) -> None:
    """For any subset done, what is left is exactly the rest of the plan, each key once, in plan order."""
    plan = plan_of(corpus, budget, arms)
    every = list(turn_keys(plan))
    done = data.draw(st.sets(st.sampled_from(every)))
    left = keys_left(plan, done)
    assert len(set(every)) == len(every)
    assert left == [key for key in every if key not in done]
    assert plan.size is not None
    assert len(every) == plan.size[0] * len(arms)


@settings(max_examples=60, deadline=None)
@given(CORPORA, BUDGETS, st.integers(0, 2**40))
def test_same_input_gives_the_same_plan(corpus: list[Episode], budget: Budget, seed: int) -> None:
    """Keys, order, seeds and salts of a plan depend on its input only, not on the order asked for."""
    first, second = (list(turn_keys(plan_of(corpus, budget, ["a", "b"], seed))) for _ in range(2))
    assert first == second
    assert [seed_for(seed, key) for key in first] == [seed_for(seed, key) for key in second]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_different_seeds_differ(seed: int) -> None:
    """Another seed gives another order and other request seeds."""
    corpus = [episode(f"e{i}", 2, i) for i in range(12)]
    one, other = (list(turn_keys(plan_of(corpus, Budget(passes=1), ["a"], s))) for s in (seed, seed + 1))
    assert one != other
    assert sorted(one) == sorted(other)
    assert all(seed_for(seed, key) != seed_for(seed + 1, key) for key in one)


@settings(max_examples=60, deadline=None)
@given(CORPORA, BUDGETS)
def test_swapping_arms_only_swaps(corpus: list[Episode], budget: Budget) -> None:
    """With the arms' names exchanged, the plan is the same with the names exchanged."""
    swap = {"a": "b", "b": "a"}
    one = [(key.pair, swap[key.arm]) for key in turn_keys(plan_of(corpus, budget, ["a", "b"]))]
    other = [(key.pair, key.arm) for key in turn_keys(plan_of(corpus, budget, ["b", "a"]))]
    assert one == other


@settings(max_examples=60, deadline=None)
@given(CORPORA, st.integers(0, 5))
def test_repositories_alternate_where_they_can(corpus: list[Episode], pass_: int) -> None:
    """Two neighbours of one repository occur only if that repository has more than half of the episodes."""
    order = [item.meta["repository"] for item in plan_of(corpus, Budget(passes=1), ["a"]).pass_order(pass_)]
    repeats = sum(left == right for left, right in itertools.pairwise(order))
    most = max(order.count(name) for name in order)
    assert sorted(order) == sorted(item.meta["repository"] for item in corpus)
    assert repeats == max(0, 2 * most - len(order) - 1)

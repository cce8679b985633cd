"""The plan: what is sent, in which order, with which seed and salt."""

import dataclasses
import itertools
from typing import Any

import pytest
from rigs.planned import turn_keys

from soak.errors import CorpusError, UsageError
from soak.facts import Budget, Episode, Message, Scenario, TurnKey, make_episode
from soak.plan import arm_order, describe, make_plan, plan_digest, salt_for, seed_for


def episode(name: str, turns: int, repository: str | None = None) -> Episode:
    """Return an episode of `turns` turns, each message ten characters long."""
    messages = [Message(role="system", content="s" * 10)]
    for _ in range(turns):
        messages += [Message(role="user", content="u" * 10), Message(role="assistant", content="a" * 10)]
    return make_episode(name, messages, meta={} if repository is None else {"repository": repository})


def scenario(**fields: Any) -> Scenario:
    """Return a scenario with these fields."""
    return Scenario(name="n", question="q", duration="d", corpus="c", **fields)


CORPUS = [episode(f"{name}{i}", 2 + i, name) for name in "abc" for i in range(3)]
A_PASS = sum(len(item.turns) for item in CORPUS)


def test_passes_cover_the_corpus_once_each() -> None:
    """Two passes hold each turn of each episode exactly twice, pass after pass, turns in order."""
    plan = make_plan(scenario(budget=Budget(passes=2)), CORPUS, ["a"])
    conversations = list(plan.conversations())
    assert [conversation.pass_ for conversation in conversations] == [0] * 9 + [1] * 9
    assert [conversation.ordinal for conversation in conversations] == list(range(18))
    for conversation in conversations:
        assert conversation.turns == conversation.episode.turns
    assert plan.size == (2 * A_PASS, 2)


def test_each_pass_has_its_own_order() -> None:
    """The order of episodes changes from pass to pass, and the first pass is mixed too."""
    plan = make_plan(scenario(budget=Budget(passes=2)), CORPUS, ["a"])
    orders = [[item.id for item in plan.pass_order(pass_)] for pass_ in range(3)]
    assert len({tuple(order) for order in [*orders, [item.id for item in CORPUS]]}) == 4


def test_repositories_alternate() -> None:
    """Episodes of one repository do not follow each other while another one is left."""
    plan = make_plan(scenario(), CORPUS, ["a"])
    for pass_ in range(10):
        names = [item.meta["repository"] for item in plan.pass_order(pass_)]
        assert all(left != right for left, right in itertools.pairwise(names))


def test_budget_of_turns_is_counted_conversation_by_conversation() -> None:
    """N turns are the first N of plan order for each arm, across passes if need be."""
    whole = list(turn_keys(make_plan(scenario(budget=Budget(passes=2)), CORPUS, ["a"])))
    plan = make_plan(scenario(budget=Budget(turns=A_PASS + 4)), CORPUS, ["a"])
    assert list(turn_keys(plan)) == whole[: A_PASS + 4]
    assert plan.size == (A_PASS + 4, 2)


def test_time_budget_is_endless() -> None:
    """A budget of hours goes on with pass after pass."""
    plan = make_plan(scenario(budget=Budget(hours=1)), CORPUS, ["a"])
    last = next(itertools.islice(plan.conversations(), 1000, None))
    assert plan.endless
    assert plan.size is None
    assert last.pass_ == 1000 // 9


def test_turn_remains_while_any_arm_lacks_it() -> None:
    """A turn done by one arm only is offered again; one done by both is not; ordinals do not move."""
    plan = make_plan(scenario(budget=Budget(passes=1)), CORPUS, ["a", "b"])
    first = next(plan.conversations())
    keys = [
        TurnKey(episode=first.episode.id, turn=index, pass_=0, arm=arm) for index, arm in [(0, "a"), (0, "b"), (1, "a")]
    ]
    again = next(plan.conversations(lambda key: key in keys))
    assert [turn.index for turn in again.turns] == [turn.index for turn in first.turns][1:]
    second = next(plan.conversations(lambda key: key.episode == first.episode.id))
    assert second.ordinal == 1


def test_arms_alternate_by_pair() -> None:
    """Along a conversation and from one to the next, the order of arms goes AB, BA, AB."""
    plan = make_plan(scenario(budget=Budget(passes=1)), CORPUS, ["a", "b"])
    first, second, *_ = plan.conversations()
    orders = ["".join(arm_order(first, turn, plan.arms)) for turn in first.episode.turns]
    assert orders[:2] == ["ab", "ba"]
    assert "".join(arm_order(second, second.turns[0], plan.arms)) == "ba"


def test_seed_is_shared_by_arms_and_nothing_else() -> None:
    """Both arms get the same request seed; another turn, pass, episode or scenario seed gets another one."""
    key = TurnKey(episode="e", turn=1, pass_=0, arm="a")
    seeds = {
        seed_for(7, key),
        seed_for(8, key),
        seed_for(7, TurnKey(episode="f", turn=1, pass_=0, arm="a")),
        seed_for(7, TurnKey(episode="e", turn=2, pass_=0, arm="a")),
        seed_for(7, TurnKey(episode="e", turn=1, pass_=1, arm="a")),
    }
    assert len(seeds) == 5
    assert all(0 < seed < 2**31 for seed in seeds)
    assert seed_for(7, TurnKey(episode="e", turn=1, pass_=0, arm="b")) == seed_for(7, key)


def test_seed_never_changes_between_versions() -> None:
    """The request seed of a known key is this number, so that a run can be repeated by a later soak."""
    assert seed_for(7, TurnKey(episode="pocket-units", turn=3, pass_=2, arm="candidate")) == 227263411


def test_salt_is_for_a_pass_or_a_conversation() -> None:
    """Salt none is None; pass is shared within a pass; conversation differs by episode; all differ by seed."""
    assert salt_for("none", 7, "e", 0) is None
    assert salt_for("pass", 7, "e", 0) == salt_for("pass", 7, "f", 0) != salt_for("pass", 7, "e", 1)
    assert salt_for("conversation", 7, "e", 0) != salt_for("conversation", 7, "f", 0)
    assert salt_for("pass", 7, "e", 0) != salt_for("pass", 8, "e", 0)
    assert len(salt_for("pass", 7, "e", 0) or "") == len("[run 3f9a01c2]")


def test_plan_digest_covers_scenario_corpus_seed_and_arms() -> None:
    """Any change of what is sent or judged changes the plan's digest; the same input gives the same."""
    base = scenario()
    digests = {
        plan_digest(base, "c", 7, ["a"]),
        plan_digest(dataclasses.replace(base, salt="pass"), "c", 7, ["a"]),
        plan_digest(base, "d", 7, ["a"]),
        plan_digest(base, "c", 8, ["a"]),
        plan_digest(base, "c", 7, ["a", "b"]),
    }
    assert len(digests) == 5
    assert plan_digest(scenario(), "c", 7, ("a",)) in digests


def test_describe_counts_what_would_be_sent() -> None:
    """The outline of a bounded plan: turns, requests of all arms, depth by nearest rank, tokens as characters / 4."""
    plan = make_plan(scenario(budget=Budget(turns=5)), [episode("e", 2)], ["a", "b"])
    outline = describe(plan)
    assert (outline.episodes, outline.pass_turns, outline.turns, outline.passes, outline.requests) == (1, 2, 5, 3, 10)
    assert (outline.depth_characters.p50, outline.depth_characters.max) == (20, 40)
    assert (outline.depth_tokens.p50, outline.depth_tokens.max) == (5, 10)
    assert outline.pass_prompt_tokens == 15
    assert outline.prompt_tokens == 2 * (15 + 15 + 5)
    assert outline.completion_tokens_max == 10 * 20000
    assert [item.turns for item in outline.first] == [2, 2, 1]
    assert [item.deepest_characters for item in outline.first] == [40, 40, 20]


def test_describe_of_an_endless_plan_leaves_totals_open() -> None:
    """What a time budget will reach is not known beforehand, so it is None and not a guess."""
    outline = describe(make_plan(scenario(budget=Budget(minutes=5)), CORPUS, ["a"]))
    assert {outline.turns, outline.passes, outline.requests, outline.prompt_tokens} == {None}
    assert outline.pass_turns == A_PASS
    assert len(outline.first) == 8


def test_plan_that_cannot_be_is_refused() -> None:
    """No arms, two arms of one name, no turns, and two episodes of one id are refused with a reason."""
    with pytest.raises(UsageError):
        make_plan(scenario(), CORPUS, [])
    with pytest.raises(UsageError):
        make_plan(scenario(), CORPUS, ["a", "a"])
    with pytest.raises(CorpusError, match="no turn"):
        make_plan(scenario(), [episode("e", 0)], ["a"])
    with pytest.raises(CorpusError, match="same id"):
        make_plan(scenario(), [episode("e", 1), episode("e", 2)], ["a"])

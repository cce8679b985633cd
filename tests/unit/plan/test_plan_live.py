"""Plans of live runs: how many turns a conversation may have, and what is known before anything is sent."""

from rigs.replaying import conversation, scenario

from soak.facts import Budget, Live, TurnKey
from soak.plan import describe, make_plan, turn_limit
from soak.report import terminal_plan

EPISODES = [conversation(name, turns) for name, turns in (("a", 3), ("b", 5), ("c", 8))]


def test_a_conversation_may_have_a_multiple_of_its_recorded_turns() -> None:
    """One and a half times, rounded up; in recorded replay exactly the recorded ones."""
    live = scenario(replay="live", live=Live(max_turns=1.5))
    assert [turn_limit(live, episode) for episode in EPISODES] == [5, 8, 12]
    assert [turn_limit(scenario(), episode) for episode in EPISODES] == [3, 5, 8]


def test_a_budget_of_turns_bounds_the_sum_of_the_limits() -> None:
    """Conversations are handed out in plan order until their limits use the budget up; the last one's limit is cut."""
    plan = make_plan(scenario(replay="live", budget=Budget(turns=11)), EPISODES, ["candidate"])
    assert sum(one.turn_limit for one in plan.conversations()) == 11
    assert plan.size is not None
    assert plan.size[0] == 11


def test_a_conversation_is_left_until_all_arms_are_done_with_it() -> None:
    """What is done is asked of whole conversations: one that an arm still has open keeps all its turns."""
    plan = make_plan(scenario(replay="live"), EPISODES, ["x", "y"])

    def over(key: TurnKey) -> bool:
        return key.episode == "a" or (key.episode == "b" and key.arm == "x")

    assert {one.episode.id: len(one.turns) for one in plan.conversations(over)} == {"b": 5, "c": 8}


def test_the_outline_says_what_is_an_upper_bound() -> None:
    """Turns and requests are at most so many; prompts are what the record comes to, pass for pass."""
    live, recorded = (
        describe(make_plan(scenario(replay=mode, budget=Budget(passes=2)), EPISODES, ["candidate"]))
        for mode in ("live", "recorded")
    )
    assert (live.upper_bound, recorded.upper_bound) == (True, False)
    assert (live.turns, recorded.turns) == (50, 32)
    assert live.prompt_tokens == recorded.prompt_tokens == 2 * live.pass_prompt_tokens
    assert "turns per arm: at most 50" in terminal_plan(live)
    assert "at most 32" not in terminal_plan(recorded)

"""A plan in numbers, for a person to look at before anything is sent."""

import itertools

import msgspec

from soak.facts import Episode, ShapesCard, depths, estimate_tokens
from soak.plan.plan import Plan
from soak.plan.stress import shapes_of

_FIRST = 8


class DepthQuantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Prefix sizes of the turns of one pass, by nearest rank."""

    p50: int
    p90: int
    max: int


class PlannedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """One of the first conversations: how many turns it has and how deep its last prefix is."""

    episode: str
    pass_: int = msgspec.field(name="pass")
    turns: int
    deepest_characters: int


class PlanOutline(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a plan comes to. `turns`, `requests` (turns × arms) and `passes` are None for a time budget.

    In live replay `turns`, `requests` and `completion_tokens_max` are upper bounds, and `prompt_tokens` is what the
    record comes to: `upper_bound` says so. In agent replay `turns` are tasks, each of at most `task_turns_max` turns,
    and prompts are those of the tasks' statements alone.

    Tokens are estimates: characters / 4, tool schemas and chat template not counted. `pass_prompt_tokens` is what one
    pass sends to one arm, `prompt_tokens` the whole plan to all arms; `completion_tokens_max` is the cap on what comes
    back. `shapes` is what the load does besides replaying; its words and padding are not in the estimates.
    """

    scenario: str
    episodes: int
    arms: tuple[str, ...]
    seed: int
    pass_turns: int
    turns: int | None
    passes: int | None
    requests: int | None
    depth_characters: DepthQuantiles
    depth_tokens: DepthQuantiles
    pass_prompt_tokens: int
    prompt_tokens: int | None
    completion_tokens_max: int | None
    first: tuple[PlannedConversation, ...]
    upper_bound: bool = False
    task_turns_max: int | None = None
    shapes: ShapesCard | None = None


def describe(plan: Plan) -> PlanOutline:
    """Return the numbers of `plan`; nothing is sent, and an endless plan is looked at for one pass."""
    prefixes = {episode.id: _prefix_characters(episode) for episode in plan.episodes}
    sizes = sorted(size for episode in plan.episodes for size in _sent(plan, episode, prefixes))
    size = plan.size
    prompt = None if size is None else _prompt_tokens(plan, prefixes, size[0]) * len(plan.arms)
    works = plan.scenario.replay == "agent"
    calls = plan.scenario.agent.step_limit if works else 1
    requests = None if size is None else size[0] * len(plan.arms) * calls
    return PlanOutline(
        scenario=plan.scenario.name,
        episodes=len(plan.episodes),
        arms=plan.arms,
        seed=plan.scenario.seed,
        pass_turns=len(sizes),
        turns=None if size is None else size[0],
        passes=None if size is None else size[1],
        requests=requests,
        depth_characters=_quantiles(sizes),
        depth_tokens=_quantiles([estimate_tokens(size) for size in sizes]),
        pass_prompt_tokens=sum(estimate_tokens(size) for size in sizes),
        prompt_tokens=prompt,
        completion_tokens_max=None if requests is None else requests * plan.scenario.sampling.max_tokens,
        first=_first(plan, prefixes),
        upper_bound=plan.scenario.replay != "recorded",
        task_turns_max=calls if works else None,
        shapes=shapes_of(plan),
    )


def _prefix_characters(episode: Episode) -> tuple[int, ...]:
    """Return the size of each turn's prefix."""
    sums = depths(episode)
    return tuple(sums[turn.prefix] for turn in episode.turns)


def _sent(plan: Plan, episode: Episode, prefixes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the sizes of the prefixes that one pass sends of this episode, in the plan's order."""
    return prefixes[episode.id][plan.branch(episode) or 0 :] * plan.trips(episode)


def _prompt_tokens(plan: Plan, prefixes: dict[str, tuple[int, ...]], turns: int) -> int:
    """Return what the first `turns` turns of the plan send to one arm: whole passes, then the part of one."""
    if plan.scenario.replay != "recorded":
        return sum(
            estimate_tokens(prefixes[conversation.episode.id][turn.index])
            for conversation in plan.conversations()
            for turn in conversation.turns
        )
    a_pass = [size for episode in plan.episodes for size in _sent(plan, episode, prefixes)]
    passes, rest = divmod(turns, len(a_pass))
    whole = sum(estimate_tokens(size) for size in a_pass)
    last = itertools.chain.from_iterable(_sent(plan, episode, prefixes) for episode in plan.pass_order(passes))
    return passes * whole + sum(estimate_tokens(size) for size in itertools.islice(last, rest))


def _first(plan: Plan, prefixes: dict[str, tuple[int, ...]]) -> tuple[PlannedConversation, ...]:
    return tuple(
        PlannedConversation(
            episode=conversation.episode.id,
            pass_=conversation.pass_,
            turns=len(conversation.turns),
            deepest_characters=max(prefixes[conversation.episode.id][turn.index] for turn in conversation.turns),
        )
        for conversation in itertools.islice(plan.conversations(), _FIRST)
    )


def _quantiles(values: list[int]) -> DepthQuantiles:
    """Return quantiles of sorted values by nearest rank: the smallest value that covers the fraction."""
    return DepthQuantiles(p50=_at(values, 50), p90=_at(values, 90), max=values[-1])


def _at(values: list[int], percent: int) -> int:
    return values[-(-len(values) * percent // 100) - 1]

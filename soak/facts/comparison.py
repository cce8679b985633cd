"""`soak.comparison/1`: two arms side by side. Field meanings are the contract's; None means not measured."""

from typing import Literal

import msgspec

from soak.facts.card import CardDifference
from soak.facts.summary import Spread, Verdict

Result = Literal["improvement", "regression", "equivalent", "inconclusive"]
Bound = Literal["exact", "at_least", "at_most", "unknown"]
Limits = tuple[float, float]


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Turns of one class among the finished turns of one arm."""

    events: int
    turns: int


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """
    One arm's rate (a fraction), its exact 95 % interval, and what it is below with 95 % confidence.

    Turns count as independent; `anytime95` is the interval that may be looked at after every turn (the same turns,
    wider). With no event `upper95` is about 3/turns.
    """

    rate: float
    ci95: Limits
    upper95: float
    anytime95: Limits


class Discordant(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs in which only one arm had the event."""

    baseline_only: int
    candidate_only: int


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """
    Anytime-valid evidence against "the arms are alike", updated after each conversation both arms ran.

    `e_value` may be looked at as often as one likes: if the arms are alike it ever reaches 1/alpha with a chance of at
    most alpha. `bar` is what decides here: 1/alpha times the classes asked about. `e_value_max` is the highest it was,
    `direction` what it speaks for, `decided_after` the pairs after which it first reached the bar (None: it did not).
    `path` holds (pairs so far, e_value) as the run went, at most 200 points.
    """

    e_value: float
    e_value_max: float
    bar: float
    conversations: int
    direction: Literal["improvement", "regression"] | None = None
    decided_after: int | None = None
    path: list[tuple[int, float]] = []


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """
    What would settle it at the rates seen, with `power` at two-sided 5 %; None where the rates are equal.

    `turns`: per arm, if pairs recur and crowd in episodes as they did here (`design_effect` times the paired number).
    `episodes`: the same at the turns an episode has here. `hours`: at the pace of these runs, one arm after the other
    or both at once as here. `anytime_turns`: expected until the sequential evidence decides. `seen_turns` is what there
    is, `detectable_events` the candidate's events at which these turns would have shown a drop.
    """

    power: float
    turns: int | None
    episodes: int | None
    hours: float | None
    anytime_turns: int | None
    seen_turns: int
    detectable_events: int | None = None


class ClassComparison(msgspec.Struct, frozen=True, kw_only=True):
    """
    One class: counts, difference (candidate − baseline) and rate ratio with 95 % intervals, test, result.

    Counts are over the turns compared: the paired ones, or all finished ones where no turn is paired. `discordant` and
    `both` (pairs in which both arms had the event) are None where no turn is paired. `turns_needed_80`: turns per arm
    for 80 % power at these rates if turns fail independently; `turns_needed_80_paired`: if failures recur on the same
    turns as often as they did here.
    `design_effect`: how many times the variance of the difference is what independent pairs would give (None: too few
    events to say); `icc`: the correlation of two turns of one episode that it amounts to. `failing_episodes`: episodes
    with an event in either arm.
    """

    baseline: Events
    candidate: Events
    discordant: Discordant | None
    difference: float | None
    ci95: Limits | None
    rate_ratio: float | None
    rate_ratio_ci95: Limits | None
    p_value: float | None
    test: str
    turns_needed_80: int | None
    result: Result
    p_adjusted: float | None = None
    both: int | None = None
    turns_needed_80_paired: int | None = None
    baseline_rate: Rate | None = None
    candidate_rate: Rate | None = None
    design_effect: float | None = None
    icc: float | None = None
    failing_episodes: int | None = None
    evidence: Evidence | None = None
    needed: Needed | None = None


class Makespan(msgspec.Struct, frozen=True, kw_only=True):
    """
    How long each arm's turns take from first to last with `in_flight` conversations at once, in seconds.

    Simulated by list scheduling: conversations in the order they began, turns of one conversation one after another,
    each as long as it took. `*_without_garbage_s`: garbage turns replaced by the median time of the arm's ok turns.
    `critical_change_s` is the part of the change (candidate − baseline) that garbage turns made on the critical path:
    four loops fewer save their seconds only where others waited for them. `*_observed_s` is what the clock showed,
    None for two arms of one run, which share it.
    """

    in_flight: int
    conversations: int
    baseline_s: float
    candidate_s: float
    ratio: float
    baseline_without_garbage_s: float
    candidate_without_garbage_s: float
    ratio_without_garbage: float
    critical_change_s: float
    baseline_observed_s: float | None = None
    candidate_observed_s: float | None = None


class WallClock(msgspec.Struct, frozen=True, kw_only=True):
    """
    Summed turn time of the paired turns, in seconds, and its ratio candidate/baseline with a 95 % interval.

    `explained_by`: seconds of the change (candidate − baseline) in pairs, by class; a pair's change goes to the worse
    class of its two turns. `censored_pairs` were broken off by a limit: their times are lower bounds, and `bound` says
    what that makes of the ratio (at_least: only the candidate's were cut). `ratio_ok` is the ratio over pairs in which
    both turns are ok, so that loops do not decide it. `explained_by_part`: the same change split into "tokens" (longer
    or shorter answers), "speed" (time per token), "first_token" (waiting for it), "retries" (attempts before the last
    and pauses between) and "other" (turns that did not tell their parts). `turn_ratio` is the geometric mean of the
    pairs' ratios, each turn counting alike. Episodes: how many took longer in one arm, and the sign-flip p-value of the
    summed log ratios. `result` is by `ci95`, and equivalent where it lies within the stated time margin.
    """

    baseline_s: float | None
    candidate_s: float | None
    ratio: float | None
    ci95: Limits | None
    explained_by: dict[str, float]
    censored_pairs: int = 0
    ratio_ok: float | None = None
    ratio_ok_ci95: Limits | None = None
    bound: Bound = "exact"
    explained_by_part: dict[str, float] = {}
    turn_ratio: float | None = None
    turn_ratio_ci95: Limits | None = None
    slower_episodes: int = 0
    faster_episodes: int = 0
    p_value: float | None = None
    result: Result = "inconclusive"
    makespan: Makespan | None = None


class QuantileEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """
    One quantile in milliseconds with a 95 % interval from order statistics (turns counted as independent).

    Turns cut by a limit count as values above what was seen: a quantile that falls among them is None, and an upper
    limit of the interval that does is None (not bounded).
    """

    value: float | None
    low95: float | None
    high95: float | None


class LatencyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """
    TTFT, TPOT or E2E of the answers both arms gave: quantiles by name ("p50", "p95", "p99") per arm, and the change.

    `ratio`: geometric mean of candidate/baseline over pairs whose values are both known, with episodes as clusters.
    """

    baseline: dict[str, QuantileEstimate]
    candidate: dict[str, QuantileEstimate]
    baseline_turns: int
    candidate_turns: int
    baseline_censored: int
    candidate_censored: int
    ratio: float | None = None
    ratio_ci95: Limits | None = None


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """
    Usable tokens (completion tokens of ok turns) of one arm per second of the run and per second of turn time.

    `within_limits`: the fraction of finished turns that are ok and within `ttft_limit_ms` and `tpot_limit_ms`; None
    where no limit was stated.
    """

    usable_tokens_per_s: float | None
    usable_tokens_per_busy_s: float | None
    wasted_tokens: int | None
    within_limits: float | None = None
    ttft_limit_ms: float | None = None
    tpot_limit_ms: float | None = None


class SurvivalCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Kaplan–Meier: conversations, those that failed, and (at, share without a failure so far) after each failure."""

    conversations: int
    failed: int
    median: float | None
    curve: list[tuple[float, float]]


class Survival(msgspec.Struct, frozen=True, kw_only=True):
    """
    How far conversations came before their first failure (any class but ok), in `unit`, per arm.

    unit: "turns", "tokens" (generated) or "s" (turn time). `p_log_rank` takes conversations as independent; `p_value`
    swaps arms inside episodes (sign-flip of log-rank scores), None unpaired. A picture, not the primary test.
    """

    unit: Literal["turns", "tokens", "s"]
    baseline: SurvivalCurve
    candidate: SurvivalCurve
    p_log_rank: float | None
    p_value: float | None


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """Turns whose value lies from `low` (included) to `high` (excluded, None: no end), and those that failed."""

    low: float
    high: float | None
    baseline: Events
    candidate: Events


class TrendTest(msgspec.Struct, frozen=True, kw_only=True):
    """
    Whether an arm's failures become more frequent along an axis: score test of a linear trend.

    `slope` is the change of the failure rate per unit of the axis's `per`, with a 95 % interval; `p_value` from signs
    flipped by episode (None below five failing episodes), `p_independent` is Cochran–Armitage's, for independent turns.
    Along "uptime_s" no slope is told where the turns span less than half an hour.
    """

    slope: float | None
    slope_ci95: Limits | None
    p_value: float | None
    p_independent: float | None


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """
    Failure rate (any class but ok) along an axis, in bands and as a trend per arm.

    axis: "depth_tokens" (prompt tokens), "turn" (place in the conversation) or "uptime_s" (since the engine's start
    where it is known, else since the arm's first turn). `per`: the unit of the slopes (1,000 tokens, 1 turn, 3,600 s).
    """

    axis: Literal["depth_tokens", "turn", "uptime_s"]
    per: float
    bands: list[Band]
    baseline: TrendTest
    candidate: TrendTest


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """
    Change of an arm's time per token over the run: per cent per hour with a 95 % interval; None if unknown.

    `exposure_s` is the time from the first to the last ok turn; where nothing is told, `unknown_because` says why.
    """

    tpot_percent_per_hour: float | None
    ci95: Limits | None
    exposure_s: float | None = None
    unknown_because: str | None = None


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """
    What two runs of one build differ by: everything a comparison of two builds must exceed.

    `class_flips`: pairs whose classes differ. `rate_half_width`: half the interval of the difference in failures of any
    class. `turn_time_factor_p50`, `_p95`: the factor by which a turn's time differs between arms, either way, in half
    and in 95 % of the pairs. `total_time_half_width`: half the interval of the time ratio.
    """

    class_flips: int
    class_flip_rate: float
    rate_half_width: float | None
    turn_time_factor_p50: float | None
    turn_time_factor_p95: float | None
    total_time_half_width: float | None


class TaskComparison(msgspec.Struct, frozen=True, kw_only=True):
    """
    An agent's tasks in both arms, paired by task and pass where both came to an end.

    `pairs` tasks; `baseline`, `candidate`: resolved ones among them; `discordant`: resolved in one arm only.
    `difference` of the shares with its 95 % interval; `p_value`: exact McNemar test, two-sided. `*_wall_s`: the agent's
    time over the paired tasks.
    """

    pairs: int
    baseline: int
    candidate: int
    discordant: Discordant
    difference: float | None
    ci95: Limits | None
    p_value: float | None
    baseline_wall_s: float
    candidate_wall_s: float
    result: Result


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's ended conversations: how many, how many with a loop across turns, and turns and turn time of each."""

    ended: int
    loops: int
    turns: Spread | None
    seconds: Spread | None


class ConversationsCompared(msgspec.Struct, frozen=True, kw_only=True):
    """
    Whole conversations of two arms (live replay). `pairs`: those that both arms ended; the ratios are over these.

    `p_loops`, `p_turns`: sign-flip over episodes of "as many looped" and "as many turns".
    """

    pairs: int
    baseline: Tasks
    candidate: Tasks
    p_loops: float | None
    turns_ratio: float | None
    turns_ratio_ci95: Limits | None
    p_turns: float | None
    time_ratio: float | None
    time_ratio_ci95: Limits | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """
    Two arms side by side. `invalid` says why no conclusion may be drawn (then the verdict is unknown).

    `verdict_by_evidence` is what the comparison says by itself, `verdict` what is left of it after somebody's gates.
    `sentence` is the short paragraph to paste; `details` are the sentences it leaves out.
    `warnings`: differences of environment or build that a reader must know, before any number. `margin` is the largest
    difference of rates, `time_margin` the largest relative change of turn time, said not to matter. `builds` names what
    was compared, `latency` is by "ttft_ms", "tpot_ms", "e2e_ms", `goodput` and `drift` by "baseline", "candidate".
    `noise_floor` is set where both arms ran the same build (A/A), `conversations` where the arms' own answers carried
    their conversations on; then turns are never paired, tests have the episode as their unit, and intervals are at
    least as wide as by episodes. `tasks` is set where an agent worked on tasks in both. `cards`: what the environment
    cards differ in (None: a run without them).
    """

    schema: str = "soak.comparison/1"
    baseline: str
    candidate: str
    pairs: int
    unpaired: int
    clusters: int
    classes: dict[str, ClassComparison]
    wall_clock: WallClock
    invalid: list[str]
    verdict: Verdict
    sentence: str
    notes: list[str] = []
    warnings: list[str] = []
    builds: dict[str, str] = {}
    alpha: float = 0.05
    margin: float | None = None
    time_margin: float | None = None
    latency: dict[str, LatencyComparison] = {}
    goodput: dict[str, Goodput] = {}
    survival: list[Survival] = []
    trends: list[Trend] = []
    drift: dict[str, Drift] = {}
    noise_floor: NoiseFloor | None = None
    verdict_by_evidence: Verdict | None = None
    details: list[str] = []
    tasks: TaskComparison | None = None
    conversations: ConversationsCompared | None = None
    cards: CardDifference | None = None

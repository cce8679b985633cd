"""`soak.summary/1`: what a run came to, arm by arm. Field meanings are the contract's; None means not measured."""

from typing import Any, Literal

import msgspec

from soak.facts.build import Build
from soak.facts.card import EnvironmentCard
from soak.facts.conversation import ConversationLoop
from soak.facts.engine_evidence import EngineEvidence
from soak.facts.finding import TurnClass

Verdict = Literal["pass", "fail", "unknown"]


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds; None where no turn had the value."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class TurnCounts(msgspec.Struct, frozen=True, kw_only=True):
    """
    Turns of one arm. `planned` = finished + skipped + indeterminate + not_reached + aborted.

    indeterminate: turns whose last start we ourselves broke off. aborted: turns that the plan marks to be closed by us;
    they are in no class. `repeated_starts` counts starts that were broken off
    and offered again.
    """

    planned: int
    finished: int
    ok: int
    garbage_loop: int
    early_stop: int
    max_tokens: int
    error: int
    skipped: int
    indeterminate: int
    not_reached: int = 0
    repeated_starts: int = 0
    aborted: int = 0


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens as the server counted them; `usable` are completion tokens of turns classed ok."""

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    usable: int | None = None


class Speculation(msgspec.Struct, frozen=True, kw_only=True):
    """Deltas over the run. acceptance_length = 1 + accepted/drafts; rate = accepted/draft tokens."""

    acceptance_length: float | None = None
    acceptance_rate: float | None = None
    per_position: list[float] = []
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None


class PrefixCache(msgspec.Struct, frozen=True, kw_only=True):
    """Deltas over the run, in tokens."""

    hit_rate: float | None = None
    queries: float | None = None
    hits: float | None = None


class WorstTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn worth looking at: its key as `episode:turn:pass:arm`, class and one line of evidence."""

    turn: str
    class_: TurnClass = msgspec.field(name="class")
    reason: str
    tokens: int | None = None


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """
    An agent's tasks on one arm (`replay: agent`).

    `ended` of `planned` tasks came to an end, `resolved` of these (their hidden tests pass); `resolved_ci95` is the
    exact 95 % interval of their share. `ends`: tasks by how they ended; resolved ones are among `submitted`.
    `turns`, `commands`, `format_errors` (answers without a usable action) and `wall_s` (the agent's time, its commands
    and tests included) are sums over the ended tasks. `drifted`: turns whose stored answers were given to an agent
    that had come to other messages after a resume.
    """

    planned: int
    ended: int
    resolved: int
    resolved_rate: float | None = None
    resolved_ci95: tuple[float, float] | None = None
    submitted_empty: int = 0
    loop_killed: int = 0
    step_limit: int = 0
    errors: int = 0
    ends: dict[str, int] = {}
    turns: int = 0
    commands: int = 0
    format_errors: int = 0
    drifted: int = 0
    wall_s: float = 0.0


class CanaryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """
    Secret words on one arm (`canaries: true`).

    `contaminated`: turns whose answer holds another conversation's word, each one certain. `asked`: turns that asked
    for their own word and came to an end, `recalled` of these said it, `recall_ci95` is the exact 95 % interval of the
    share: a small model may forget, so it says something beside another arm's only.
    """

    contaminated: int
    asked: int
    recalled: int
    recall_rate: float | None = None
    recall_ci95: tuple[float, float] | None = None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Quantiles of a number over conversations, and the greatest."""

    p25: float
    p50: float
    p75: float
    p90: float
    max: float


class LoopSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A loop across turns, and the conversation it is in, as `episode:pass:arm`."""

    conversation: str
    loop: ConversationLoop


class Conversations(msgspec.Struct, frozen=True, kw_only=True):
    """
    Conversations of an arm whose turns were made at run time (`replay: live`); never mixed with recorded turns.

    `ended` of those `begun` came to their end, `reasons` says how often for which reason. `loops`: ended conversations
    with a loop across turns, counted apart from the classes of turns; `looped` shows the first twenty. `turns`: those
    of an ended conversation. `counts`: what the mode counted besides, such as how calls were matched.
    """

    begun: int
    ended: int
    reasons: dict[str, int]
    loops: int
    loop_rate: float | None
    turns: Spread | None
    counts: dict[str, int] = {}
    looped: list[LoopSeen] = []


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """
    One arm.

    `wall_s`: time the run was active. `busy_s`: summed turn time by class (turns overlap, so it may exceed wall_s).
    Quantiles leave out values that are only known to exceed something; `censored` counts those turns.
    `attempts` counts HTTP exchanges, `retried_turns` finished turns that took more than one.
    `conversations` is None where turns were replayed as recorded.
    `kinds`: how often each finding kind occurred. `engine`: other engine deltas (preemptions, success by reason, …).
    `evidence`: what the engine's counters say turn by turn (None: it could not be worked out).
    `environment`: what was really running, without its list of packages (None: not learnt).
    """

    build: Build
    valid: bool
    invalid_reasons: list[str]
    turns: TurnCounts
    wall_s: float
    busy_s: dict[str, float]
    tokens: TokenCounts
    ttft_ms: Quantiles
    tpot_ms: Quantiles
    e2e_ms: Quantiles
    speculation: Speculation
    prefix_cache: PrefixCache
    usable_tokens_per_s: float | None = None
    rate: dict[str, float | None] = {}
    rate_upper95: dict[str, float | None] = {}
    skipped_reasons: dict[str, int] = {}
    clamped: int = 0
    censored: int = 0
    attempts: int = 0
    retried_turns: int = 0
    loop_lag_ms_max: float = 0.0
    kinds: dict[str, int] = {}
    engine: dict[str, Any] = {}
    worst: list[WorstTurn] = []
    tasks: TaskCounts | None = None
    conversations: Conversations | None = None
    canaries: CanaryCounts | None = None
    environment: EnvironmentCard | None = None
    evidence: EngineEvidence | None = None


class PlanCard(msgspec.Struct, frozen=True, kw_only=True):
    """
    What was planned. `passes` and `turns` are what the budget reached where the budget is a time; so are `turns` where
    they are made at run time (live and agent replay). `tasks`: an agent's, in all passes.
    """

    episodes: int
    turns: int
    passes: int
    seed: int
    hash: str
    tasks: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a run came to.

    `state`: running, complete, interrupted, stopped (by a threshold) or engine_gone. `replay`: the mode of replay.
    """

    schema: str = "soak.summary/1"
    run: str
    scenario: str
    replay: str = "recorded"
    verdict: Verdict
    reasons: list[str]
    state: str
    plan: PlanCard
    arms: dict[str, ArmSummary]

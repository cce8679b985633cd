"""
What one scenario file says, typed: everything a run depends on besides the corpus and the server.

Plain frozen dataclasses, because two libraries read them: pydantic checks a YAML file against them (room `scenario`,
all problems at once) and msgspec stores them in the manifest. Constraints are `annotated_types`, and every number has
two, so that a slip of the pen is told and not waited for; `__pydantic_config__` refuses unknown keys and numbers that
are not finite.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen

COUNT_MAX = 2**31 - 1
SEED_MAX = 2**63 - 1
SECONDS_MAX = 1e7
"""116 days: more than any run, deadline or pause."""
PositiveInt = Annotated[int, Gt(0), Le(COUNT_MAX)]
PositiveSeconds = Annotated[float, Gt(0), Le(SECONDS_MAX)]
Seconds = Annotated[float, Ge(0), Le(SECONDS_MAX)]
Fraction = Annotated[float, Ge(0), Le(1)]

ReplayMode = Literal["recorded", "live", "agent", "proxy"]  # proxy: live traffic kept by `soak proxy`, not replayed
CARRIED_ON = frozenset({"live", "agent"})
"""The modes in which the model's own answers carry the conversation on."""
ToolMode = Literal["auto", "native", "text"]
SaltMode = Literal["none", "pass", "conversation"]
ClientPath = Literal["wire", "sdk"]
FailureClass = Literal["garbage_loop", "early_stop", "max_tokens", "error", "any_failure"]

_STRICT = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sent with every request; None means "not sent, the server's default". `max_tokens` is clamped per turn."""

    __pydantic_config__ = _STRICT

    temperature: Annotated[float, Ge(0), Le(5)] | None = 1.0
    top_p: Annotated[float, Gt(0), Le(1)] | None = 0.95
    top_k: Annotated[int, Ge(-1), Le(COUNT_MAX)] | None = None
    min_p: Fraction | None = None
    repetition_penalty: Annotated[float, Gt(0), Le(100)] | None = None
    presence_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    frequency_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    stop: tuple[str, ...] | None = None
    max_tokens: PositiveInt = 20000


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """
    Several conversations on one shared prefix: `siblings` trips through one episode that begin together.

    They share what the model sees up to the turn at `depth` (a fraction of the episode's turns), differ from there on
    by a few words, and go on; the turns before are not sent. share: of the episodes; the others go alone.
    """

    __pydantic_config__ = _STRICT

    siblings: Annotated[int, Ge(2), Le(64)] = 4
    depth: Fraction = 0.5
    share: Annotated[float, Gt(0), Le(1)] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Staggered:
    """
    Prompts whose lengths lie around block boundaries, several sent at once.

    Each turn's last message is padded so that the prompt has a whole number of blocks plus one of `offsets` tokens.
    block_tokens: None takes what the engine says, else 16. together: so many turns are released at one moment.
    """

    __pydantic_config__ = _STRICT

    block_tokens: Annotated[int, Ge(2), Le(16384)] | None = None
    offsets: Annotated[tuple[Annotated[int, Ge(-64), Le(64)], ...], MinLen(1)] = (-1, 0, 1)
    together: Annotated[int, Ge(1), Le(1024)] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """
    Streams that we close: a `share` of the turns, each after so many characters of its answer.

    These turns are load and no evidence: they are in no class and in no time, however they end.
    """

    __pydantic_config__ = _STRICT

    share: Annotated[float, Gt(0), Le(0.5)] = 0.1
    min_chars: Annotated[int, Gt(0), Le(10_000_000)] = 1
    max_chars: Annotated[int, Gt(0), Le(10_000_000)] = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """
    Enough in flight to force preemption: from `in_flight` on, `step` more every `every_s` seconds, at most `cap`.

    It stays where it is as soon as every arm's preemption counter has moved.
    """

    __pydantic_config__ = _STRICT

    cap: Annotated[int, Gt(0), Le(4096)]
    step: Annotated[int, Gt(0), Le(4096)] = 4
    every_s: PositiveSeconds = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGaps:
    """
    Pauses with nothing in flight, then all at once: after `every_turns` turns on average, `min_s` to `max_s` long.
    """

    __pydantic_config__ = _STRICT

    every_turns: Annotated[int, Ge(2), Le(1_000_000)] = 50
    min_s: Annotated[float, Ge(0), Le(86_400)] = 5.0
    max_s: Annotated[float, Gt(0), Le(86_400)] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    How conversations arrive, and what is done to bring faults out (`overlap` and the fields below it, seeded).

    closed: `in_flight` conversations at once. arrival: a new conversation `rate_per_min` times a minute (Poisson, from
    the seed), at most `in_flight` at once. ramp: in flight rises evenly from `from_in_flight` to `in_flight` over
    `over_s` seconds.
    """

    __pydantic_config__ = _STRICT

    shape: Literal["closed", "arrival", "ramp"] = "closed"
    in_flight: Annotated[int, Gt(0), Le(4096)] = 8
    rate_per_min: Annotated[float, Ge(0.001), Le(1_000_000)] | None = None
    from_in_flight: Annotated[int, Gt(0), Le(4096)] | None = None
    over_s: PositiveSeconds | None = None
    overlap: Overlap | None = None
    staggered: Staggered | None = None
    abort: Abort | None = None
    pressure: Pressure | None = None
    idle_gaps: IdleGaps | None = None

    @property
    def most_in_flight(self) -> int:
        """Conversations at once, at the most."""
        return max(self.in_flight, self.pressure.cap if self.pressure else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkTime:
    """The pause before each turn but the first: none, as recorded (at most `max_s`), or fixed at `fixed_s`."""

    __pydantic_config__ = _STRICT

    mode: Literal["none", "recorded", "fixed"] = "none"
    fixed_s: Seconds | None = None
    max_s: PositiveSeconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Limits on one attempt, in seconds: to the first chunk with text, between chunks, and for the whole turn."""

    __pydantic_config__ = _STRICT

    first_chunk_s: PositiveSeconds = 600.0
    gap_s: PositiveSeconds = 120.0
    turn_s: PositiveSeconds = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Attempts in all for one turn, and the longest pause between two; only before any content arrived."""

    __pydantic_config__ = _STRICT

    attempts: Annotated[int, Gt(0), Le(20)] = 4
    wait_max_s: PositiveSeconds = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When the run is over: exactly one of the four is set. `hours`/`minutes` loop the corpus as often as needed."""

    __pydantic_config__ = _STRICT

    hours: PositiveSeconds | None = None
    minutes: PositiveSeconds | None = None
    passes: PositiveInt | None = None
    turns: PositiveInt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """
    How live replay follows the record (`replay: live`).

    max_turns: a conversation ends at the latest after so many times its recorded turns. match: how alike a call's
    arguments must be to a recorded call's to get its result.
    """

    __pydantic_config__ = _STRICT

    max_turns: Annotated[float, Gt(0), Le(20)] = 1.5
    match: Annotated[float, Gt(0), Le(1)] = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """
    What decides the verdict: expressions over an arm's summary, such as "rate.garbage_loop <= 0.5%".

    pass_if: all must hold for *pass*, one broken is *fail*; below `min_turns` finished turns an arm is *unknown*.
    stop_if: one that holds ends the run at once (exit code 6).
    """

    __pydantic_config__ = _STRICT

    min_turns: PositiveInt = 30
    pass_if: tuple[str, ...] = ()
    stop_if: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """
    When a run with one arm may end early, by the failure rates of a good and of a bad build.

    Both: once the arm is told to be the one or the other (alpha: a good one called bad; beta: a bad one called good).
    bad alone: once its rate is surely below half of it (good), or surely above it (bad). Neither: once its own rate is
    known well enough, the lower bound at least half of it. "Surely": but for alpha, however often one looks.
    likely_good (at most good), likely_bad (at least bad): the rates such builds are likely to have, if these are known
    to be further apart; then it is told sooner. min_turns: before so many turns it is not called good.
    """

    __pydantic_config__ = _STRICT

    good: Annotated[float, Gt(0), Lt(1)] | None = None
    bad: Annotated[float, Gt(0), Lt(1)] | None = None
    likely_good: Annotated[float, Gt(0), Lt(1)] | None = None
    likely_bad: Annotated[float, Gt(0), Lt(1)] | None = None
    min_turns: Annotated[int, Ge(0), Le(COUNT_MAX)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """
    When a run may end early: with two arms once it is decided, or once it cannot be within its budget.

    alpha: the chance of a false decision, however often one looks. beta: the chance of giving up a difference that the
    budget could have shown. margin: the largest difference of rates that does not matter (needed for *equivalent*).
    classes: what is asked about, the most important first; a gain in the first or a loss in any decides.

    With one arm, a turn of any of these classes is a failure, and it ends by `rates`, if they are given.
    """

    __pydantic_config__ = _STRICT

    alpha: Annotated[float, Gt(0), Le(0.5)] = 0.05
    beta: Annotated[float, Gt(0), Le(0.5)] = 0.2
    margin: Annotated[float, Gt(0), Le(1)] | None = None
    classes: Annotated[tuple[FailureClass, ...], MinLen(1)] = ("garbage_loop",)
    rates: Rates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What the build must be doing for the run to mean anything; "auto" takes the engine's own word."""

    __pydantic_config__ = _STRICT

    speculation: Literal["auto"] | bool = "auto"
    prefix_cache: Literal["auto"] | bool = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """
    How an agent works on its tasks (`replay: agent`; `corpus` then names a tasks file).

    tasks: the ids worked on, all if empty. step_limit: model calls for one task. task_s: seconds for one task, its
    tests not included. loops_max: so many garbage_loop turns in a row end the task (loop_killed).
    """

    __pydantic_config__ = _STRICT

    tasks: tuple[str, ...] = ()
    step_limit: Annotated[int, Gt(0), Le(1000)] = 50
    task_s: PositiveSeconds = 3600.0
    loops_max: Annotated[int, Gt(0), Le(100)] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """
    Where an agent's commands run, and the limits on each of them.

    container: `image` holds bash, git and a Python with pytest; instances of SWE-bench name their own and need none.
    `runtime` is docker or podman (default: which answers). command_s: seconds. processes: with their threads.
    memory_mib: resident, in all. disk_mib: written, in all.
    """

    __pydantic_config__ = _STRICT

    kind: Literal["bubblewrap", "container"] = "bubblewrap"
    image: Annotated[str, MinLen(1)] | None = None
    runtime: Literal["docker", "podman"] | None = None
    command_s: PositiveSeconds = 60.0
    processes: Annotated[int, Ge(8), Le(4096)] = 128
    memory_mib: Annotated[int, Ge(64), Le(2**24)] = 1024
    disk_mib: Annotated[int, Ge(8), Le(2**24)] = 256
    output_kib: Annotated[int, Ge(1), Le(65536)] = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    The content of one scenario file. Fields without a sentence here are explained by their type.

    on_loop: what happens to a stream in which a loop is certain. record: nothing, a soak shows what the server does.
    cut: it is closed; its length and time are then lower bounds (censored). canaries: each conversation is told a
    secret word, which must not turn up in another's answers; it changes every prefix, behind the first message.
    """

    __pydantic_config__ = _STRICT

    name: Annotated[str, MinLen(1)]
    question: Annotated[str, MinLen(1)]
    duration: Annotated[str, MinLen(1)]
    corpus: Annotated[str, MinLen(1)]
    replay: ReplayMode = "recorded"
    live: Live = field(default_factory=Live)
    tools: ToolMode = "auto"
    sampling: Sampling = field(default_factory=Sampling)
    load: Load = field(default_factory=Load)
    think_time: ThinkTime = field(default_factory=ThinkTime)
    deadlines: Deadlines = field(default_factory=Deadlines)
    retries: Retries = field(default_factory=Retries)
    budget: Budget = field(default_factory=lambda: Budget(passes=1))
    warm_up_turns: Annotated[int, Ge(0), Le(100)] = 1
    on_loop: Literal["record", "cut"] = "record"
    drain_s: Seconds = 120.0
    server_return_s: PositiveSeconds = 600.0
    scrape_every_s: Annotated[float, Ge(0.5), Le(86_400)] = 5.0
    salt: SaltMode = "none"
    canaries: bool = False
    seed: Annotated[int, Ge(0), Le(SEED_MAX)] = 7
    client: ClientPath = "wire"
    min_room_tokens: PositiveInt = 16
    logprobs: Annotated[int, Ge(0), Le(20)] | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    expect: Expect = field(default_factory=Expect)
    decide: Decide | None = None
    classify: dict[str, Annotated[float, Ge(0), Le(1e11)]] = field(default_factory=dict)
    agent: Agent = field(default_factory=Agent)
    sandbox: Sandbox = field(default_factory=Sandbox)

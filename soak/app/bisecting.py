"""
`soak bisect`: one run after another, each against one build, until the first bad build is known.

What to test next and what it came to is computed from the steps so far (`check.bisection`); here builds are tested. A
step is a run with one arm that ends by the rates (`check.rate_deciding`), in a run folder of its own.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from soak.app.audience import Audience
from soak.app.candidates import Candidates, Wanted, find_candidates
from soak.app.judging import state_of, summary_of
from soak.app.resume import resume, take_up
from soak.app.run import RunOrder, RunResult, prepare_run, run
from soak.app.sides import DEFAULT_ARM, ArmSpec
from soak.check import Due, RateDecider, bisection_of, due
from soak.errors import EngineError, RunFolderError, UsageError
from soak.facts import (
    Bisecting,
    Bisection,
    BisectOrder,
    BisectStep,
    Decide,
    LeftOutBuild,
    NamedBuild,
    StepOutcome,
    Summary,
    digest_of,
    encode,
)
from soak.launch import LaunchSpec, spec_of, state_of_cache
from soak.plan import search
from soak.stats import RateTest
from soak.store import BisectFolder, RunFolder

Watched = Callable[[Callable[[Audience], RunResult]], RunResult]
"""How a run is shown: given what runs it under an audience, it returns what that came to."""

Tell = Callable[[BisectStep, Bisection], None]
"""Is told each step that is over, and how far the search has come."""


@dataclass(frozen=True, kw_only=True)
class BisectWish:
    """What the command line asks for; rates as fractions, both None: measured on the ends."""

    wanted: Wanted
    scenario: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    classes: tuple[str, ...] = ("garbage_loop",)
    good_rate: float | None = None
    bad_rate: float | None = None
    alpha: float = 0.001
    beta: float = 0.001
    turns_per_step: int = 500
    min_turns: int = 0
    trust_ends: bool = False


@dataclass(frozen=True, kw_only=True)
class BisectResult:
    """What a bisection came to, where it is kept, and whether the user broke it off."""

    folder: Path
    bisection: Bisection
    interrupted: bool = False


class BisectPlan(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a bisection would do. `tests`: builds tested at most if each tells, the ends included; `turns`: theirs at most.

    `turns_good`, `turns_bad`: about what a build of the stated rate takes (None: the rates are measured first).
    `error_bound`: the chance that any of the tests is wrong. `to_make`: builds that do not lie ready,
    `needs_disk_bytes` what the tests would take at most.
    """

    schema: str = "soak.bisect-plan/1"
    builds: list[str]
    left_out: list[LeftOutBuild]
    tests: int
    turns: int
    turns_good: int | None
    turns_bad: int | None
    error_bound: float
    to_make: int
    needs_disk_bytes: int


def order_of(wish: BisectWish) -> BisectOrder:
    """
    Return what is to be done, everything checked that can be before the first server is started.

    Raises `UsageError`, `ScenarioError`, `CorpusError`, `BuildFileError`, `LaunchError`.
    """
    _refuse_rates(wish)
    candidates: Candidates = find_candidates(wish.wanted)
    order = BisectOrder(
        builds=candidates.builds,
        left_out=candidates.left_out,
        scenario=wish.scenario,
        digest="",
        overrides=dict(wish.overrides),
        model=wish.model,
        classes=wish.classes,
        good_rate=wish.good_rate,
        bad_rate=wish.bad_rate,
        alpha=wish.alpha,
        beta=wish.beta,
        turns_per_step=wish.turns_per_step,
        min_turns=wish.min_turns,
        trust_ends=wish.trust_ends,
    )
    first = due(Bisecting(order=order))
    decide = first.decide if first else Decide()
    return msgspec.structs.replace(order, digest=_digest(order, decide))


def _refuse_rates(wish: BisectWish) -> None:
    """Raise `UsageError` for rates that nothing can be tested between."""
    if wish.trust_ends and wish.good_rate is None:
        raise UsageError(
            "ends that are not tested cannot be measured",
            why="no rates were given",
            hint="give --good-rate and --bad-rate, or let the ends be tested",
        )
    if (wish.good_rate is None) != (wish.bad_rate is None):
        raise UsageError("one rate was given", why="a test is between two", hint="give both, or none to measure them")
    if wish.good_rate is not None and wish.bad_rate is not None and not 0 < wish.good_rate < wish.bad_rate < 1:
        raise UsageError(
            "the rates cannot be told apart",
            why=f"they are {wish.good_rate:.4g} for a good build and {wish.bad_rate:.4g} for a bad one",
            hint="give two shares between 0 and 1, the good one smaller and not 0: 0.1% if it never fails",
        )


def plan_of(order: BisectOrder) -> BisectPlan:
    """Return what the bisection would do; starts nothing."""
    tests = search(len(order.builds), {}).steps_left + (0 if order.trust_ends else 2)
    test = None
    if order.good_rate is not None and order.bad_rate is not None:
        test = RateTest(order.good_rate, order.bad_rate, order.alpha, order.beta)
    needs = [spec.needs_disk_bytes for build in order.builds if (spec := _to_make(build)) is not None]
    return BisectPlan(
        builds=[build.name for build in order.builds],
        left_out=list(order.left_out),
        tests=tests,
        turns=tests * order.turns_per_step,
        turns_good=None if test is None else round(test.turns_expected("good")),
        turns_bad=None if test is None else round(test.turns_expected("bad")),
        error_bound=min(1.0, tests * max(order.alpha, order.beta)),
        to_make=len(needs),
        needs_disk_bytes=sum(sorted(needs)[-tests:]),
    )


def new_bisect_folder() -> Path:
    """Return a fresh folder's path: `runs/bisect-<UTC time>`."""
    return Path("runs") / f"bisect-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


def bisect(order: BisectOrder, path: Path, *, api_key: str | None, watched: Watched, tell: Tell) -> BisectResult:
    """
    Search until the first bad build is known, or nothing more can be told, or the user breaks it off.

    Raises `RunFolderError` if the folder is taken, `EngineError` if an end cannot be tested at all.
    """
    return _Bisecting(BisectFolder.create(path, order), api_key, watched, tell).follow()


def resume_bisect(path: Path, *, api_key: str | None, watched: Watched, tell: Tell) -> BisectResult:
    """
    Go on with a bisection where it stopped; builds that could not be started are tried again.

    Raises `RunFolderError` if it is damaged, or scenario or corpus are not those it was begun with.
    """
    folder = BisectFolder.open(path)
    with folder:
        left = tuple(step for step in folder.state.steps if step.outcome != "untestable")
        if len(left) != len(folder.state.steps):
            folder.update(msgspec.structs.replace(folder.state, steps=left))
    return _Bisecting(folder, api_key, watched, tell).follow()


class _Bisecting:
    """One bisection while it goes on."""

    def __init__(self, folder: BisectFolder, api_key: str | None, watched: Watched, tell: Tell) -> None:
        self._folder = folder
        self._api_key = api_key
        self._watched = watched
        self._tell = tell

    def follow(self) -> BisectResult:
        """Test one build after another until nothing is due."""
        interrupted = False
        with self._folder:
            while not interrupted and (next_one := due(self._folder.state)) is not None:
                step, interrupted = self._test(next_one)
                if step is not None:
                    state = self._folder.state
                    self._folder.update(msgspec.structs.replace(state, steps=(*state.steps, step)))
                    self._tell(step, self._so_far())
        return BisectResult(folder=self._folder.path, bisection=self._so_far(), interrupted=interrupted)

    def _so_far(self) -> Bisection:
        return bisection_of(self._folder.state, str(self._folder.path))

    def _test(self, next_one: Due) -> tuple[BisectStep | None, bool]:
        """Return the step of one build (None: broken off before it told anything), and whether it was broken off."""
        order = self._folder.state.order
        build = order.builds[next_one.number]
        path = self._folder.run_of_next_step(build.name)
        try:
            summary = self._summary(next_one.decide, build, path)
        except EngineError as error:
            if next_one.number in (0, len(order.builds) - 1):
                raise
            text = f"{error.what}: {error.why}"
            return BisectStep(build=build.name, index=next_one.number, outcome="untestable", text=text), False
        step = _step_of(next_one, build, path, summary, self._folder.path)
        interrupted = summary.state in ("interrupted", "running")
        return (None if interrupted and step.outcome == "undecided" else step), interrupted

    def _summary(self, decide: Decide, build: NamedBuild, path: Path) -> Summary:
        """Begin the run of a step, go on with it, or take it as it is if it is over."""
        order = self._folder.state.order
        if (path / "manifest.json").exists():
            if _is_over(path, decide):
                return summary_of(RunFolder.open(path))
            return self._watched(
                lambda audience: resume(path, target=None, api_key=self._api_key, audience=audience)
            ).summary
        if _digest(order, decide) != order.digest:
            raise RunFolderError(
                f"{self._folder.path} cannot go on",
                why=f"the scenario {order.scenario} or its corpus is not the one it was begun with",
                hint="put the old one back, or begin a new bisection",
            )
        wanted = _run_order(order, decide, build, path, self._api_key)
        return self._watched(lambda audience: run(wanted, audience)).summary


def _run_order(
    order: BisectOrder, decide: Decide, build: NamedBuild, path: Path | None, api_key: str | None
) -> RunOrder:
    return RunOrder(
        scenario=order.scenario,
        overrides={
            **order.overrides,
            "budget.turns": str(order.turns_per_step),
            "thresholds.stop_if": "[]",
            "decide": encode(decide).decode(),
        },
        arms=(ArmSpec(name=DEFAULT_ARM, target=build.name, build=build),),
        model=order.model,
        api_key=api_key,
        folder=path,
    )


def _digest(order: BisectOrder, decide: Decide) -> str:
    """Return the digest of all that a step sends, whatever ends it; raises what a scenario or corpus does."""
    prepared = prepare_run(_run_order(order, decide, order.builds[0], None, None))
    scenario = replace(prepared.loaded.scenario, decide=None)
    return digest_of([msgspec.to_builtins(scenario), prepared.corpus.card.digest])


def _is_over(path: Path, decide: Decide) -> bool:
    """Whether a run has come to its end, or to its decision before it was killed."""
    with RunFolder.open(path).history() as history:
        if state_of(history) in ("complete", "engine_gone"):
            return True
        decider = RateDecider(decide)
        take_up(history, decider)
        return decider.decision is not None


def _step_of(tested: Due, build: NamedBuild, path: Path, summary: Summary, home: Path) -> BisectStep:
    """Return what a run told of its build."""
    decider = RateDecider(tested.decide)
    with RunFolder.open(path).history() as history:
        take_up(history, decider)
    arm = summary.arms[DEFAULT_ARM]
    outcome, text = _outcome_of(decider, summary)
    limits = decider.interval
    return BisectStep(
        build=build.name,
        index=tested.number,
        outcome=outcome,
        text=text,
        run=str(path.relative_to(home)),
        turns=decider.turns,
        failures=decider.failures,
        turns_sent=arm.turns.finished,
        wall_s=arm.wall_s,
        log_ratio=decider.log_ratio,
        rate_low=limits.low,
        rate_high=limits.high,
    )


def _outcome_of(decider: RateDecider, summary: Summary) -> tuple[StepOutcome, str]:
    """Return what is said of a build: a good one must have been tested, a bad one has failed in any case."""
    arm = summary.arms[DEFAULT_ARM]
    decision = decider.closed()
    if decision is None:
        why = "its engine is gone for good" if summary.state == "engine_gone" else "the turns of a step do not tell"
        return "undecided", why
    if decision.outcome == "good" and not arm.valid:
        return "undecided", f"it tested nothing: {'; '.join(arm.invalid_reasons)}"
    outcomes: Mapping[str, StepOutcome] = {"good": "good", "bad": "bad", "measured": "measured"}
    return outcomes[decision.outcome], decision.text


def _to_make(build: NamedBuild) -> LaunchSpec | None:
    """Return how a build is made that does not lie ready; None for one that does, and for a server that runs."""
    if build.file.engine == "url":
        return None
    spec = spec_of(build)
    return None if state_of_cache(spec).ready else spec

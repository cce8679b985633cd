"""`soak probe --shrink`: the smallest conversation that still fails, found with a budget of requests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from soak.app.probe.benches import Benches, ProbeOrder
from soak.app.probe.kept import Asking, rehearsed
from soak.app.probe.silence import refuse_silence
from soak.app.reporting import write_file
from soak.facts import Case, ProbePlan, ShrinkFound, ShrinkStep, Size, Trial, TurnClass, digest_of, encode
from soak.probe import (
    FRESH,
    STEP_ROUNDS,
    Ask,
    Form,
    change_of,
    class_of,
    confirms,
    rate_test_for,
    silence_is_asked,
    smaller,
    spoke,
    telling,
)
from soak.stats import Interval, RateTest, wilson

_BATCH = 5


@dataclass(frozen=True, kw_only=True)
class ShrinkOrder:
    """How many rounds measure the failure first, and how many requests all steps together may take."""

    repeats: int = 20
    budget: int = 400
    in_flight: int = 1


@dataclass
class Shrunk:
    """The smallest form so far, how often it failed, and the steps that led to it."""

    form: Form
    failure: TurnClass | None
    failed: int = 0
    rounds: int = 0
    fresh_failed: int = 0
    fresh_rounds: int = 0
    given_up: int = 0
    unanswered: int = 0
    first_failed: int = 0
    first_rounds: int = 0
    steps: list[ShrinkStep] = field(default_factory=list)
    requests: int = 0
    why_ended: str = ""
    endings: frozenset[str] = frozenset()
    """How failing answers ended before anything was made smaller."""


def plan_shrink(cases: Sequence[Case], order: ShrinkOrder, probing: ProbeOrder) -> ProbePlan:
    """Return what shrinking will send at most: the whole, all steps, and the smallest form afresh."""
    requests = 2 * order.repeats * len(cases) + order.budget
    plan = ProbePlan(
        probe="shrink",
        case=", ".join(case.name for case in cases),
        requests=requests,
        output_tokens=requests * max(case.sampling.max_tokens for case in cases),
        servers=("as built",),
    )
    before = Form(cases=tuple(cases), in_flight=order.in_flight)
    return rehearsed(plan, probing, lambda asking: shrink(before, order, asking))


def probe_shrink(cases: Sequence[Case], order: ShrinkOrder, benches: Benches, folder: Path) -> ShrinkFound:
    """Return what shrinking came to, with the smallest form written as turn files into `folder`."""
    with benches.open() as bench:
        before = Form(cases=tuple(cases), in_flight=order.in_flight)
        shrunk = shrink(before, order, bench.asker)
    files = tuple(_written(folder, number, case) for number, case in enumerate(shrunk.form.cases))
    return found_of(before, shrunk, files)


def found_of(before: Form, shrunk: Shrunk, files: tuple[str, ...] = ()) -> ShrinkFound:
    """Return what shrinking came to, as a fact."""
    interval = wilson(shrunk.fresh_failed, shrunk.fresh_rounds)
    return ShrinkFound(
        case=", ".join(case.name for case in before.cases),
        failure=shrunk.failure,
        before=size_of(before),
        after=size_of(shrunk.form),
        first_failed=shrunk.first_failed,
        first_rounds=shrunk.first_rounds,
        last_failed=shrunk.failed,
        last_rounds=shrunk.rounds,
        fresh_failed=shrunk.fresh_failed,
        fresh_rounds=shrunk.fresh_rounds,
        fresh_low=interval.low if interval else None,
        fresh_high=interval.high if interval else None,
        given_up=shrunk.given_up,
        steps=tuple(shrunk.steps),
        requests=shrunk.requests,
        files=files,
        text=_text(before, shrunk, interval),
    )


def shrink(form: Form, order: ShrinkOrder, asker: Asking) -> Shrunk:
    """
    Return the smallest form that was found to fail still, and failed afresh, asking no more than the budget.

    The first rounds of the whole and the last ones of the smallest form do not count towards it. Raises `TargetError`
    where nothing was answered, unless that is the failure.
    """
    shrunk = Shrunk(form=form, failure=_failure(form))
    whole = heard([trial for of_case in asked(asker, form, order.repeats) for trial in of_case], form, shrunk.failure)
    bad = Counter(class_of(trial) for trial in whole if class_of(trial) != "ok")
    if shrunk.failure is None and bad:
        shrunk.failure = bad.most_common(1)[0][0]
    shrunk.endings = frozenset(one.observation.ending for one in whole if class_of(one) == shrunk.failure)
    shrunk.failed, shrunk.rounds = _rounds(asker, form, shrunk, order.repeats)
    shrunk.first_failed, shrunk.first_rounds = shrunk.failed, shrunk.rounds
    test = rate_test_for(shrunk.failed, shrunk.rounds)
    if test is None:
        shrunk.why_ended = "it fails too seldom to tell smaller forms from it: ask more often with --repeats"
        return shrunk
    limit = shrunk.requests + order.budget
    refused: set[str] = set()
    path = [_Kept(form, shrunk.failed, shrunk.rounds)]
    while (kept := _next(shrunk, asker, test, limit, refused)) is not None:
        shrunk.form = kept
        path.append(_Kept(kept, shrunk.failed, shrunk.rounds))
    shrunk.why_ended = shrunk.why_ended or "nothing smaller fails as often"
    _confirm(path, shrunk, order, asker, test, limit)
    return shrunk


class _Kept(NamedTuple):
    form: Form
    failed: int
    rounds: int


def _confirm(
    path: Sequence[_Kept], shrunk: Shrunk, order: ShrinkOrder, asker: Asking, test: RateTest, limit: int
) -> None:
    """
    Ask the smallest form afresh; where it does not fail so, the one before it, as long as the budget allows.

    The whole needs no fresh rounds: those that measured it chose nothing.
    """
    whole, *smaller_ones = path
    limit += order.repeats * len(whole.form.cases)
    for kept in reversed(smaller_ones):
        if shrunk.requests + order.repeats * len(kept.form.cases) > limit:
            shrunk.why_ended = "the budget of requests ended before a smaller form was confirmed"
            break
        failed, rounds = _rounds(asker, kept.form, shrunk, order.repeats, first=FRESH)
        if confirms(test, failed, rounds, shrunk.given_up):
            shrunk.form, shrunk.failed, shrunk.rounds = kept
            shrunk.fresh_failed, shrunk.fresh_rounds = failed, rounds
            return
        shrunk.given_up += 1
    shrunk.form, shrunk.failed, shrunk.rounds = whole
    shrunk.fresh_failed, shrunk.fresh_rounds = whole.failed, whole.rounds


def _next(shrunk: Shrunk, asker: Asking, test: RateTest, limit: int, refused: set[str]) -> Form | None:
    """Return the first smaller form that still fails; None where there is none or the budget is used up."""
    for text, form in smaller(shrunk.form):
        if digest_of(form) in refused or form.size >= shrunk.form.size:
            continue
        step = _tried(text, form, shrunk, asker, test, limit)
        if step is None:
            shrunk.why_ended = "the budget of requests is used up"
            return None
        shrunk.steps.append(step)
        if step.kept:
            shrunk.failed, shrunk.rounds = step.failed, step.rounds
            return form
        refused.add(digest_of(form))
    return None


def _tried(text: str, form: Form, shrunk: Shrunk, asker: Asking, test: RateTest, limit: int) -> ShrinkStep | None:
    """Return what a smaller form came to, asked until the test decides; None where the budget ends before."""
    failed = rounds = 0
    for first in range(0, STEP_ROUNDS, _BATCH):
        if shrunk.requests + _BATCH * len(form.cases) > limit:
            return None
        more_failed, more = _rounds(asker, form, shrunk, _BATCH, first=first)
        if not more:  # a form that the server refuses or dies of is no smaller form of this failure
            break
        failed, rounds = failed + more_failed, rounds + more
        said = test.said(failed, rounds)
        if said is not None:
            return ShrinkStep(text=text, rounds=rounds, failed=failed, kept=said == "bad", decided=True)
    return ShrinkStep(text=text, rounds=rounds, failed=failed, kept=False, decided=False)


def _rounds(asker: Asking, form: Form, shrunk: Shrunk, rounds: int, first: int = 0) -> tuple[int, int]:
    """Ask so many rounds; return how many of them failed, and how many tell: those that failed or were answered."""
    shrunk.requests += rounds * len(form.cases)
    trials = asked(asker, form, rounds, first)
    together = [[of_case[number] for of_case in trials] for number in range(rounds)]
    fails = [any(_fails(trial, shrunk) for trial in one) for one in together]
    silence_fails = silence_looked_into(form, shrunk.failure)
    tells = [bad or silence_fails or all(map(spoke, one)) for bad, one in zip(fails, together, strict=True)]
    shrunk.unanswered += tells.count(False)
    return sum(fails), sum(tells)


def silence_looked_into(form: Form, failure: TurnClass | None) -> bool:
    """Whether an answer that does not come may be the failure: it is an error, or not known and a turn was one."""
    return any(silence_is_asked(case, failure or "any_failure") for case in form.cases)


def heard(trials: Sequence[Trial], form: Form, failure: TurnClass | None) -> list[Trial]:
    """Return the trials that tell of a failure; raises `TargetError` where there are none for want of answers."""
    silence_fails = silence_looked_into(form, failure)
    if not silence_fails:
        refuse_silence("the turn was not answered", trials)
    return telling(trials, silence_fails=silence_fails)


def asked(asker: Asking, form: Form, rounds: int, first: int = 0) -> tuple[tuple[Trial, ...], ...]:
    """Return the trials of each case of a form, asked for so many rounds."""
    change = change_of(form)
    asks = [Ask(case=case, change=change, repeats=rounds, first=first) for case in form.cases]
    return asker.together(asks, form.in_flight)


def _fails(trial: Trial, shrunk: Shrunk) -> bool:
    """Whether it fails as the whole did: a smaller form that the server refuses is another failure, if it is one."""
    same = class_of(trial) == shrunk.failure
    return same and (shrunk.failure != "error" or trial.observation.ending in shrunk.endings)


def _failure(form: Form) -> TurnClass | None:
    """Return the failure looked for: the class of the turns when they were first asked; None: what comes most often."""
    classes = {case.judgement.class_ for case in form.cases if case.judgement} - {"ok"}
    return classes.pop() if len(classes) == 1 else None


def size_of(form: Form) -> Size:
    """Return how much a form asks."""
    conversations, messages, characters, in_flight = form.size
    return Size(conversations=conversations, messages=messages, characters=characters, in_flight=in_flight)


def _text(before: Form, shrunk: Shrunk, interval: Interval | None) -> str:
    was, now = size_of(before), size_of(shrunk.form)
    rates = f"failed in {shrunk.first_failed} of {shrunk.first_rounds} before"
    if interval is not None and shrunk.form != before:
        rates += (
            f", and asked afresh in {shrunk.fresh_failed} of {shrunk.fresh_rounds} now"
            f" (95 %: {interval.low:.0%} to {interval.high:.0%})"
        )
    if shrunk.given_up:
        rates += f"; {shrunk.given_up} smaller that had seemed to fail were not confirmed when asked afresh"
    if shrunk.unanswered:
        rates += f"; {shrunk.unanswered} rounds were not answered and do not count"
    shape = (
        f"{was.conversations} → {now.conversations} conversations, {was.messages} → {now.messages} messages,"
        f" {was.characters:,} → {now.characters:,} characters, {was.in_flight} → {now.in_flight} in flight"
    )
    return f"{shape}; {rates}; {shrunk.why_ended}"


def _written(folder: Path, number: int, case: Case) -> str:
    path = folder / f"shrunk-{number}.json"
    write_file(path, encode(case).decode())
    return str(path)

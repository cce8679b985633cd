"""
How far a search for the first bad build has come: what to test next, and what it came to. Pure.

The bad end comes first, for nothing can be found where it does not fail; then the good end; then the middle, and so on.
"""

from collections.abc import Mapping
from typing import NamedTuple

from soak.check.rate_deciding import odds
from soak.check.wording import percent, percent_up, plural
from soak.facts import Bisecting, Bisection, BisectOrder, BisectOutcome, BisectStep, Decide, Rates
from soak.plan import Search, Told, search

_DECIDED = ("good", "bad", "measured")


class Due(NamedTuple):
    """A build to test, by its number, and when its run may end."""

    number: int
    decide: Decide


class _Ends(NamedTuple):
    """What the ends came to: the outcome that ends the search (None: they are as said), and the one still to test."""

    outcome: BisectOutcome | None = None
    due: Due | None = None


def due(bisecting: Bisecting) -> Due | None:
    """Return the build to test next; None where nothing is left to test, or an end is not what it was said to be."""
    ends = _ends(bisecting)
    if ends.outcome or ends.due:
        return ends.due
    rates, at = _rates(bisecting), _search(bisecting)
    return None if rates is None or at.next is None else Due(at.next, _decide(bisecting.order, rates))


def rates_between(bisecting: Bisecting) -> tuple[float, float] | None:
    """
    Return the rates of a good and of a bad build that are tested between; None where they are not known yet.

    Measured: what the good end's rate is surely below, and the bad end's surely above.
    """
    rates = _rates(bisecting)
    return None if rates is None or rates.good is None or rates.bad is None else (rates.good, rates.bad)


def _rates(bisecting: Bisecting) -> Rates | None:
    """Return what a build between the ends is tested by: the rates stated, or those that the ends showed."""
    order, steps = bisecting.order, _by_index(bisecting)
    if order.good_rate is not None and order.bad_rate is not None:
        return Rates(good=order.good_rate, bad=order.bad_rate, min_turns=order.min_turns)
    good, bad = steps.get(0), steps.get(len(order.builds) - 1)
    if good is None or bad is None or good.outcome != "good" or bad.outcome != "measured":
        return None
    return Rates(
        good=good.rate_high,
        bad=bad.rate_low,
        likely_good=min(_likely(good), good.rate_high),
        likely_bad=max(_likely(bad), bad.rate_low),
        min_turns=order.min_turns,
    )


def _likely(step: BisectStep) -> float:
    """Return the rate a build showed, kept off 0 and 1 as by half a turn of each kind more (Jeffreys)."""
    return (step.failures + 0.5) / (step.turns + 1)


def bisection_of(bisecting: Bisecting, run: str) -> Bisection:
    """Return what the search came to; `open` while something is left to test."""
    order = bisecting.order
    names = [build.name for build in order.builds]
    ends, at = _ends(bisecting), _search(bisecting)
    left = due(bisecting)
    outcome = ends.outcome or ("open" if left else "found" if len(at.suspects) == 1 else "narrowed")
    rates = rates_between(bisecting) or (order.good_rate, order.bad_rate)
    decided = sum(step.outcome in _DECIDED for step in bisecting.steps)
    known = outcome in ("found", "narrowed")
    return Bisection(
        run=run,
        scenario=order.scenario,
        classes=list(order.classes),
        outcome=outcome,
        sentence=_sentence(bisecting, outcome, at),
        first_bad=names[at.bad] if outcome == "found" else None,
        last_good=names[at.good] if known else None,
        suspects=[names[index] for index in at.suspects] if known or outcome == "open" else [],
        builds=names,
        left_out=list(order.left_out),
        good_rate=rates[0],
        bad_rate=rates[1],
        measured=order.good_rate is None,
        alpha=order.alpha,
        beta=order.beta,
        error_bound=min(1.0, decided * max(order.alpha, order.beta)),
        turns=sum(step.turns_sent for step in bisecting.steps),
        steps_left=at.steps_left + (2 - _ends_tested(bisecting)) if outcome == "open" else 0,
        steps=list(bisecting.steps),
    )


def _ends(bisecting: Bisecting) -> _Ends:
    """Return what is known of the ends, the bad one looked at first."""
    order, steps = bisecting.order, _by_index(bisecting)
    if order.trust_ends:
        return _Ends()
    last, measuring = len(order.builds) - 1, order.good_rate is None
    bad, good = steps.get(last), steps.get(0)
    stated = Rates(good=order.good_rate, bad=order.bad_rate, min_turns=order.min_turns)
    if bad is None:
        return _Ends(due=Due(last, _decide(order, stated)))
    if bad.outcome != ("measured" if measuring else "bad"):
        return _Ends(outcome="bad_is_good" if bad.outcome == "good" else "ends_alike")
    if good is None:
        below = Rates(bad=bad.rate_low, min_turns=order.min_turns) if measuring else stated
        return _Ends(due=Due(0, _decide(order, below)))
    if good.outcome != "good":
        return _Ends(outcome="good_is_bad" if good.outcome == "bad" else "ends_alike")
    return _Ends()


def _ends_tested(bisecting: Bisecting) -> int:
    tested = _by_index(bisecting)
    return 2 if bisecting.order.trust_ends else (0 in tested) + (len(bisecting.order.builds) - 1 in tested)


def _decide(order: BisectOrder, rates: Rates) -> Decide:
    return Decide(alpha=order.alpha, beta=order.beta, classes=order.classes, rates=rates)  # type: ignore[arg-type]


def _search(bisecting: Bisecting) -> Search:
    told: dict[int, Told] = {}
    for step in bisecting.steps:
        told[step.index] = "good" if step.outcome == "good" else "bad" if step.outcome == "bad" else "nothing"
    last = len(bisecting.order.builds) - 1
    return search(last + 1, {index: what for index, what in told.items() if 0 < index < last})


def _by_index(bisecting: Bisecting) -> Mapping[int, BisectStep]:
    return {step.index: step for step in bisecting.steps}


# -- in words --------------------------------------------------------------------------------------------------


def _sentence(bisecting: Bisecting, outcome: BisectOutcome, at: Search) -> str:
    builds, steps = bisecting.order.builds, _by_index(bisecting)
    good, bad = (f"{builds[index].name}{_counts(steps.get(index))}" for index in (at.good, at.bad))
    first, last = (f"{builds[index].name}{_counts(steps.get(index % len(builds)))}" for index in (0, -1))
    if outcome == "found":
        return f"the first bad build is {bad}; the last good one is {good}"
    if outcome == "narrowed":
        skipped = [f"{builds[index].name}{_why(steps.get(index))}" for index in at.suspects[:-1]]
        count = len(at.suspects)
        return (
            f"the first bad build is one of {count} after {good}, at the latest {bad}; not told: {'; '.join(skipped)}"
        )
    if outcome == "good_is_bad":
        return f"the good end {first} fails as well: there is no first bad build after it"
    if outcome == "bad_is_good":
        return f"the bad end {last} is good: there is nothing to find"
    if outcome == "ends_alike":
        return f"the ends were not told apart: {'; '.join(f'{step.build}{_why(step)}' for step in bisecting.steps)}"
    return f"{plural(len(at.suspects), 'build')} may be the first bad one: after {good}, at the latest {bad}"


def _counts(step: BisectStep | None) -> str:
    return "" if step is None else f" ({step.failures} of {plural(step.turns, 'turn')} failed)"


def _why(step: BisectStep | None) -> str:
    """Return what a step that did not decide saw."""
    if step is None or step.outcome == "untestable":
        return f" ({step.text})" if step else ""
    limits = f"rate {percent(step.rate_low)} to {percent_up(step.rate_high)}"
    told = f", {odds(step.log_ratio)}" if step.log_ratio is not None else ""
    return f" ({step.failures} of {plural(step.turns, 'turn')} failed: {limits}{told})"

"""
The language of thresholds and gates: `PATH COMPARATOR VALUE`, checked against the shape of a fact before it is used.

    rate.garbage_loop <= 0.5%      turns.error >= 200      ttft_ms.p99 <= 60000      kinds.salad == 0

A scenario's thresholds look at an arm's summary. The gates of a comparison (`--fail-on`) look at `soak.comparison/1`,
where a word may stand in place of a number, and may join several by `and` and `or` (`and` binds tighter):

    classes.garbage_loop.result == regression or wall_clock.ratio > 110%
    classes.error.p_value < 0.05 and classes.error.difference > 1%

A path that does not lead to a number or word, and an expression that can never or always hold, are refused.
"""

import re
from collections.abc import Iterator
from typing import get_args

from soak.errors import ScenarioError, UsageError
from soak.facts import COMPARATORS, Clause, Comparator, Condition, Threshold, WordTest
from soak.scenario.shapes import ARM, COMPARISON, Field, Shape

_FORM = re.compile(
    r"\s*(?P<path>[A-Za-z_][\w.]*)\s*(?P<comparator><=|>=|==|!=|<|>)"
    r"\s*(?:(?P<number>[-+]?[0-9.][0-9.eE+-]*)\s*(?P<percent>%?)|(?P<word>[A-Za-z_]\w*))\s*\Z"
)
_JOINT = re.compile(r"\s+(?:and|or)\s+")
_TEXT_MAX = 200
_CONDITION_MAX = 1000
_AN_EXAMPLE = 'write it like "rate.garbage_loop <= 0.5%"'
_A_GATE = 'write it like "classes.garbage_loop.result == regression" or "wall_clock.ratio > 110%"'


def parse_threshold(text: str) -> Threshold:
    """Return the threshold over an arm's summary in `text`; raises `ScenarioError` saying what is wrong with it."""
    problem = threshold_problem(text)
    if problem is not None:
        what = f"the threshold {text[:_TEXT_MAX]!r} cannot be used"
        raise ScenarioError(what, problems=(problem,), hint=_AN_EXAMPLE)
    return _threshold(_match(text))


def threshold_problem(text: str) -> str | None:
    """Return why `text` is not a usable threshold over an arm's summary, or None if it is one."""
    form = _FORM.match(text) if len(text) <= _TEXT_MAX else None
    if form is None or form["word"]:
        signs = " ".join(COMPARATORS)
        return f"is not of the form FIELD COMPARATOR NUMBER, such as rate.garbage_loop <= 0.5% (comparators: {signs})"
    return _clause_problem(form, ARM)


def parse_condition(text: str) -> Condition:
    """Return the condition over a comparison in `text`; raises `UsageError` saying what is wrong with it."""
    problem = condition_problem(text)
    if problem is not None:
        raise UsageError(f"--fail-on {text[:_TEXT_MAX]!r} cannot be used", why=problem, hint=_A_GATE)
    groups = (re.split(r"\s+and\s+", group) for group in re.split(r"\s+or\s+", text))
    return Condition(text=text.strip(), any_of=tuple(tuple(_clause(part) for part in group) for group in groups))


def condition_problem(text: str) -> str | None:
    """Return why `text` is not a usable condition over a comparison, or None if it is one."""
    if len(text) > _CONDITION_MAX:
        return f"it is longer than {_CONDITION_MAX} characters"
    return next(_part_problems(text), None)


def _part_problems(text: str) -> Iterator[str]:
    for part in _JOINT.split(text):
        form = _FORM.match(part)
        if form is None:
            signs = " ".join(COMPARATORS)
            wanted = f"FIELD COMPARATOR VALUE (comparators: {signs}; joined by and, or)"
            yield f"{part.strip()!r} is not of the form {wanted}"
        elif (problem := _clause_problem(form, COMPARISON)) is not None:
            yield problem


def _match(text: str) -> re.Match[str]:
    form = _FORM.match(text)
    if form is None:
        raise ValueError(text)
    return form


def _clause(text: str) -> Clause:
    """Return the clause in a text that was found usable."""
    form = _match(text)
    field = COMPARISON.field(form["path"])
    if field is None or not field.words:
        return _threshold(form)
    path = tuple(form["path"].split("."))
    return WordTest(text=text.strip(), path=path, equal=form["comparator"] == "==", word=form["word"])


def _threshold(form: re.Match[str]) -> Threshold:
    comparator, limit = _parts(form)
    return Threshold(text=form[0].strip(), path=tuple(form["path"].split(".")), comparator=comparator, limit=limit)


def _parts(form: re.Match[str]) -> tuple[Comparator, float]:
    """Return comparator and limit; a percentage becomes a fraction. Raises `ValueError` for what is no number."""
    comparator: Comparator = next(c for c in get_args(Comparator) if c == form["comparator"])
    return comparator, float(form["number"]) / (100 if form["percent"] else 1)


def _clause_problem(form: re.Match[str], shape: Shape) -> str | None:
    """Return why a text of the right form says nothing about a fact of this shape, or None if it does."""
    path = form["path"]
    field = shape.field(path)
    if field is None:
        return shape.unknown(path)
    if field.words:
        return _word_problem(form, field)
    if form["word"]:
        return f"{path} is a number, so it cannot be compared with {form['word']}"
    try:
        comparator, limit = _parts(form)
    except ValueError:
        return f"{form['number']} is not a number"
    if form["percent"] and not field.fraction:
        return f"{path} is not a fraction, so it cannot be compared with a percentage"
    return _impossible(path, field, comparator, limit)


def _word_problem(form: re.Match[str], field: Field) -> str | None:
    path, words = form["path"], ", ".join(field.words)
    if form["word"] is None:
        return f"{path} is not a number, so it cannot be compared with one; it is one of {words}"
    if form["comparator"] not in ("==", "!="):
        return f"{path} is one of {words}: compare it by == or !="
    return None if form["word"] in field.words else f"{path} is never {form['word']}; it is one of {words}"


def _impossible(path: str, field: Field, comparator: Comparator, limit: float) -> str | None:
    """Return why the comparison says nothing, given the range of the field."""
    low, high = field.low, field.high
    if abs(limit) == float("inf"):
        return f"{path} is finite, so this says nothing"
    if not low <= limit <= high:
        if low == 0 and limit < 0:
            return f"{path} is never negative, so {limit:g} is impossible"
        return f"{path} is a fraction from {low:g} to {high:g}, so {limit:g} is impossible (1% is 0.01)"
    if (comparator, limit) in (("<", low), (">", high)):
        return "can never hold"
    if (comparator, limit) in ((">=", low), ("<=", high)):
        return "always holds, so it decides nothing"
    if field.whole and comparator in ("==", "!=") and limit != int(limit):
        return f"{path} is a whole number, so comparing it with {limit:g} for equality decides nothing"
    return None

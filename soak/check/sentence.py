"""The paragraph a maintainer can paste: what was counted, what it is worth, what would settle it."""

from collections.abc import Mapping, Sequence

from soak.check.pairing import Pairing
from soak.check.wording import TITLES, duration, percent, percent_up, plural, rounded_up, two_digits
from soak.facts import ClassComparison, WallClock
from soak.stats import detectable_rate, upper_bound

_FIRST = "garbage_loop"
_CHANGE_SHOWN_S = 1.0


def sentence_of(
    classes: Mapping[str, ClassComparison],
    clock: WallClock,
    *,
    invalid: Sequence[str],
    notes: Sequence[str],
    pairing: Pairing,
    margin: float | None,
) -> str:
    """Return one paragraph: what voids the comparison, garbage loops, other classes that occurred, time, notes."""
    unit = f"paired turns in {pairing.clusters} episodes" if pairing.pairs else "turns (unpaired)"
    parts = [f"No conclusion may be drawn: {'; '.join(invalid)}."] if invalid else []
    parts.append(_class_text(_FIRST, classes[_FIRST], unit, margin))
    others = [name for name in classes if name not in (_FIRST, "any_failure")]
    parts += [
        _class_text(name, classes[name], unit.split(" in ")[0], margin)
        for name in others
        if classes[name].baseline.events + classes[name].candidate.events
    ]
    parts += [text for text in (_time_text(clock),) if text]
    parts += [f"{note[0].upper()}{note[1:]}." for note in notes]
    return " ".join(parts)


def _class_text(name: str, found: ClassComparison, unit: str, margin: float | None) -> str:
    title = TITLES[name]
    turns = _turns_text(found)
    counts = f"{title[0].upper()}{title[1:]} {found.baseline.events} → {found.candidate.events} of {turns} {unit}"
    if found.baseline.events + found.candidate.events == 0:
        return f"{counts}{_none_seen(found)}{_equivalence(found, margin)}."
    evidence = "; ".join(text for text in (_effect(found), _p_text(found), _both_text(found)) if text)
    return f"{counts} ({evidence}). {_conclusion(found, margin)}"


def _turns_text(found: ClassComparison) -> str:
    first, second = found.baseline.turns, found.candidate.turns
    return f"{first:,}" if first == second else f"{first:,} and {second:,}"


def _none_seen(found: ClassComparison) -> str:
    bound = upper_bound(0, min(found.baseline.turns, found.candidate.turns))
    return f": below {percent_up(bound)} in each arm with 95 % confidence" if bound is not None else ""


def _equivalence(found: ClassComparison, margin: float | None) -> str:
    if found.result != "equivalent" or margin is None:
        return ""
    return f", equivalent within the stated margin of {percent(margin)}"


def _effect(found: ClassComparison) -> str:
    if found.rate_ratio is not None and found.rate_ratio_ci95 is not None:
        low, high = (two_digits(limit) for limit in found.rate_ratio_ci95)
        return f"RR {two_digits(found.rate_ratio)}, 95 % {low}–{high}"
    if found.difference is None or found.ci95 is None:
        return ""
    low, high = (f"{100 * limit:+.2g}" for limit in found.ci95)
    return f"difference {100 * found.difference:+.2g} points, 95 % {low} to {high}"


def _p_text(found: ClassComparison) -> str:
    if found.p_value is None:
        return ""
    test = found.test.split(",")[0]
    adjusted = found.p_adjusted
    corrected = adjusted is not None and adjusted != found.p_value
    more = f", {two_digits(adjusted)} corrected for the classes tested" if corrected and adjusted is not None else ""
    return f"p = {two_digits(found.p_value)} by {test}{more}".replace("= <", "< ")


def _both_text(found: ClassComparison) -> str:
    return "" if found.both is None else f"{found.both} failed in both"


def _conclusion(found: ClassComparison, margin: float | None) -> str:
    if found.result == "equivalent" and margin is not None:
        return f"Equivalent within the stated margin of {percent(margin)}."
    if found.result in ("improvement", "regression"):
        word = "fewer" if found.result == "improvement" else "more"
        return f"The candidate has {word}: the interval of the difference excludes no change."
    return f"Not distinguishable from no change.{_needed(found)}"


def _needed(found: ClassComparison) -> str:
    """Return what would settle it: turns per arm at these rates, and what these turns could have shown."""
    if found.turns_needed_80 is None:
        return " The rates are equal: no number of turns would tell them apart."
    text = f" At these rates 80 % power needs about {rounded_up(found.turns_needed_80)} turns per arm"
    paired = found.turns_needed_80_paired
    if found.both and paired is not None and paired < found.turns_needed_80:
        text += f" ({rounded_up(paired)} if failures recur on the same turns as they did here)"
    return text + _visible(found) + "."


def _visible(found: ClassComparison) -> str:
    """Return the drop that the turns at hand would have shown with 80 % power."""
    turns = min(found.baseline.turns, found.candidate.turns)
    lower = detectable_rate(found.baseline.events / found.baseline.turns, turns) if found.baseline.turns else None
    if lower is None:
        return ""
    return f"; with {turns:,} you could have seen {found.baseline.events} → {int(lower * found.baseline.turns)}"


def _time_text(clock: WallClock) -> str:
    if clock.baseline_s is None or clock.candidate_s is None or clock.ratio is None:
        return ""
    limits = f", 95 % {two_digits(clock.ci95[0])}–{two_digits(clock.ci95[1])}" if clock.ci95 else ""
    text = (
        f"Turn time of the paired turns {duration(clock.baseline_s)} → {duration(clock.candidate_s)}"
        f" (ratio {two_digits(clock.ratio)}{limits})"
    )
    if clock.ci95 is not None and clock.ci95[0] <= 1 <= clock.ci95[1]:
        text += ", not distinguishable from no change"
    return text + _explained(clock) + "."


def _explained(clock: WallClock) -> str:
    shares = sorted(clock.explained_by.items(), key=lambda item: -abs(item[1]))
    told = [
        f"{'+' if s > 0 else '−'}{duration(abs(s))} in {TITLES[name]}"
        for name, s in shares
        if abs(s) >= _CHANGE_SHOWN_S
    ]
    text = f"; of the change {', '.join(told)}" if told else ""
    if clock.ratio_ok is not None and len(clock.explained_by) > 1:
        limits = (
            f" ({two_digits(clock.ratio_ok_ci95[0])}–{two_digits(clock.ratio_ok_ci95[1])})"
            if clock.ratio_ok_ci95
            else ""
        )
        text += f"; ratio {two_digits(clock.ratio_ok)}{limits} over pairs in which both turns are ok"
    if clock.censored_pairs:
        text += f"; {plural(clock.censored_pairs, 'pair')} cut by a limit, with times that are lower bounds"
    return text

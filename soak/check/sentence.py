"""The paragraph a maintainer can paste: what was counted, what it is worth, what would settle it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from soak.check.pairing import Pairing
from soak.check.stated import Terms
from soak.check.wording import TITLES, duration, percent, percent_up, plural, rounded_up, two_digits
from soak.facts import ClassComparison, ConversationsCompared, Evidence, Makespan, Needed, NoiseFloor, WallClock
from soak.stats import upper_bound

_FIRST = "garbage_loop"
_CHANGE_SHOWN_S = 1.0
_DESIGN_EFFECT_TOLD = 1.2
_PARTS = {
    "tokens": "longer or shorter answers",
    "speed": "time per token",
    "first_token": "waiting for the first token",
    "retries": "retries",
    "other": "turns that did not tell their parts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What the paragraph needs besides the numbers."""

    invalid: Sequence[str]
    warnings: Sequence[str]
    notes: Sequence[str]
    builds: Mapping[str, str]
    pairing: Pairing
    terms: Terms
    noise: NoiseFloor | None
    conversations: ConversationsCompared | None = None


def sentence_of(classes: Mapping[str, ClassComparison], clock: WallClock, telling: Telling) -> str:
    """Return one paragraph: what voids or clouds it, garbage loops, other classes seen, time, notes, builds."""
    pairing, terms = telling.pairing, telling.terms
    unit = f"paired turns in {pairing.clusters} episodes" if pairing.pairs else "turns (unpaired)"
    if pairing.own_ways:
        unit = f"turns in {pairing.clusters} episodes, which each arm carried on with its own answers"
    parts = [f"No conclusion may be drawn: {'; '.join(telling.invalid)}."] if telling.invalid else []
    parts += [_as_sentence(warning) for warning in telling.warnings]
    parts.append(_class_text(_FIRST, classes[_FIRST], unit, terms))
    others = [name for name in classes if name not in (_FIRST, "any_failure")]
    parts += [
        _class_text(name, classes[name], unit.split(" in ")[0], terms)
        for name in others
        if classes[name].baseline.events + classes[name].candidate.events
    ]
    parts += _conversation_texts(telling.conversations)
    parts += [text for text in (_time_text(clock), _makespan_text(clock.makespan), _noise_text(telling.noise)) if text]
    parts += [_as_sentence(note) for note in telling.notes]
    parts.append(f"Builds: {telling.builds['baseline']} → {telling.builds['candidate']}.")
    return " ".join(parts)


def _conversation_texts(found: ConversationsCompared | None) -> list[str]:
    """Return loops across turns, and turns per task, of conversations that the arms carried on themselves."""
    if found is None:
        return []
    first, second = found.baseline, found.candidate
    loops = f"Conversation loops {first.loops} of {first.ended} → {second.loops} of {plural(second.ended, 'task')}"
    texts = [f"{loops} (p = {two_digits(found.p_loops)} by sign-flip over episodes)." if found.p_loops else f"{loops}."]
    if first.turns is not None and second.turns is not None:
        ratio = ""
        if found.turns_ratio is not None and found.turns_ratio_ci95 is not None:
            low, high = (two_digits(limit) for limit in found.turns_ratio_ci95)
            ratio = f" (total ratio {two_digits(found.turns_ratio)}, 95 % {low}–{high})"
        texts.append(f"Turns per task, median: {first.turns.p50:g} → {second.turns.p50:g}{ratio}.")
    return texts


def _as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _class_text(name: str, found: ClassComparison, unit: str, terms: Terms) -> str:
    title = TITLES[name]
    turns = _turns_text(found)
    counts = f"{title[0].upper()}{title[1:]} {found.baseline.events} → {found.candidate.events} of {turns} {unit}"
    if found.baseline.events + found.candidate.events == 0:
        return f"{counts}{_none_seen(found)}{_equivalence(found, terms.margin)}."
    by_evidence = terms.decide is not None and found.evidence is not None
    worth = _evidence_text(found.evidence) if by_evidence and found.evidence else _p_text(found)
    evidence = "; ".join(text for text in (_effect(found), worth, _both_text(found)) if text)
    return f"{counts} ({evidence}). {_conclusion(found, terms)}"


def _evidence_text(evidence: Evidence) -> str:
    reached = "" if evidence.decided_after is None else f", reached after {evidence.decided_after:,} pairs"
    return f"anytime evidence E = {two_digits(evidence.e_value_max)} where {evidence.bar:g} decides{reached}"


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


def _conclusion(found: ClassComparison, terms: Terms) -> str:
    if found.result == "equivalent" and terms.margin is not None:
        return f"Equivalent within the stated margin of {percent(terms.margin)}."
    if found.result in ("improvement", "regression"):
        word = "fewer" if found.result == "improvement" else "more"
        if terms.decide is not None:
            chance = percent(terms.alpha)
            return f"The candidate has {word}: the evidence reached its bar, as it would by chance at most {chance}."
        return f"The candidate has {word}: the interval of the difference excludes no change."
    return f"Not distinguishable from no change.{_needed_text(found, found.needed)}"


def _needed_text(found: ClassComparison, needed: Needed | None) -> str:
    """Return what would settle it: turns per arm at these rates, and what these turns could have shown."""
    if found.turns_needed_80 is None or needed is None:
        return " The rates are equal: no number of turns would tell them apart."
    text = f" At these rates 80 % power needs about {rounded_up(found.turns_needed_80)} turns per arm"
    paired = found.turns_needed_80_paired
    if found.both and paired is not None and paired < found.turns_needed_80:
        text += f" ({rounded_up(paired)} if failures recur on the same turns as they did here)"
    if needed.turns is not None and (found.design_effect or 1.0) > _DESIGN_EFFECT_TOLD:
        text += f", {rounded_up(needed.turns)} as failures crowd in episodes here"
    if needed.hours is not None:
        text += f", about {duration(3600 * needed.hours)} of such runs"
    return text + _visible(found, needed) + "."


def _visible(found: ClassComparison, needed: Needed) -> str:
    """Return the drop that the turns at hand would have shown with 80 % power."""
    if needed.detectable_events is None:
        return ""
    return f"; with {needed.seen_turns:,} you could have seen {found.baseline.events} → {needed.detectable_events}"


def _time_text(clock: WallClock) -> str:
    if clock.baseline_s is None or clock.candidate_s is None or clock.ratio is None:
        return ""
    limits = f", 95 % {two_digits(clock.ci95[0])}–{two_digits(clock.ci95[1])}" if clock.ci95 else ""
    text = (
        f"Turn time of the paired turns {duration(clock.baseline_s)} → {duration(clock.candidate_s)}"
        f" (ratio {two_digits(clock.ratio)}{limits})"
    )
    if clock.result == "equivalent":
        text += ", equivalent within the stated margin"
    elif clock.ci95 is not None and clock.ci95[0] <= 1 <= clock.ci95[1]:
        text += ", not distinguishable from no change"
    return text + _explained(clock) + "."


def _explained(clock: WallClock) -> str:
    shares = sorted(clock.explained_by.items(), key=lambda item: -abs(item[1]))
    told = [f"{_signed(s)} in {TITLES[name]}" for name, s in shares if abs(s) >= _CHANGE_SHOWN_S]
    text = f"; of the change {', '.join(told)}" if told else ""
    parts = sorted(clock.explained_by_part.items(), key=lambda item: -abs(item[1]))
    by_part = [f"{_signed(s)} by {_PARTS[name]}" for name, s in parts if abs(s) >= _CHANGE_SHOWN_S]
    text += f"; {', '.join(by_part)}" if by_part else ""
    if clock.ratio_ok is not None and len(clock.explained_by) > 1:
        limits = (
            f" ({two_digits(clock.ratio_ok_ci95[0])}–{two_digits(clock.ratio_ok_ci95[1])})"
            if clock.ratio_ok_ci95
            else ""
        )
        text += f"; ratio {two_digits(clock.ratio_ok)}{limits} over pairs in which both turns are ok"
    if clock.censored_pairs:
        text += f"; {plural(clock.censored_pairs, 'pair')} cut by a limit, with times that are lower bounds"
        text += {"at_least": ", so the ratio is at least this", "at_most": ", so the ratio is at most this"}.get(
            clock.bound, ", in both arms, so the ratio may lie on either side"
        )
    return text


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '−'}{duration(abs(seconds))}"


def _makespan_text(span: Makespan | None) -> str:
    """Return what the turns take from first to last, with garbage and without; nothing with one in flight."""
    if span is None or span.in_flight < 2:
        return ""
    return (
        f"With {span.in_flight} conversations in flight these turns take {duration(span.baseline_s)} →"
        f" {duration(span.candidate_s)} from first to last by simulation, without garbage loops"
        f" {duration(span.baseline_without_garbage_s)} → {duration(span.candidate_without_garbage_s)}."
    )


def _noise_text(noise: NoiseFloor | None) -> str:
    if noise is None:
        return ""
    text = f"Noise floor: {plural(noise.class_flips, 'pair')} of one class in one arm and another in the other"
    if noise.turn_time_factor_p50 is not None and noise.turn_time_factor_p95 is not None:
        text += (
            f", turn times apart by a factor of {two_digits(noise.turn_time_factor_p50)} in half"
            f" and {two_digits(noise.turn_time_factor_p95)} in 95 % of the pairs"
        )
    return text + "."

"""The paragraph a maintainer can paste: what was counted, what it is worth, what would settle it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from soak.check.classes import ANY_FAILURE
from soak.check.pairing import Pairing
from soak.check.stated import Terms
from soak.check.tasks import tasks_sentence
from soak.check.wording import TITLES, duration, percent, percent_up, plural, rounded_up, two_digits
from soak.facts import (
    ClassComparison,
    ConversationsCompared,
    Evidence,
    Makespan,
    Needed,
    NoiseFloor,
    TaskComparison,
    WallClock,
)
from soak.stats import upper_bound

_FIRST = "garbage_loop"
_ALONE = "There is nothing to compare it with."
_LINE = 200
_CHANGE_SHOWN_S = 1.0
_SHARES_TOLD = 2
_DESIGN_EFFECT_TOLD = 1.2
_ABOUT = 0.05
_PARTS = {
    "tokens": "longer or shorter answers",
    "speed": "time per token",
    "first_token": "waiting for the first token",
    "retries": "retries",
    "other": "turns that did not tell their parts",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """
    What the paragraph needs besides the numbers; `versions` names the builds.

    `same`: both arms ran one build, as far as is known; `hidden`: something may be that neither server told.
    """

    invalid: Sequence[str]
    warnings: Sequence[str]
    versions: str
    pairing: Pairing
    terms: Terms
    noise: NoiseFloor | None
    same: bool = False
    hidden: bool = True
    tasks: TaskComparison | None = None
    conversations: ConversationsCompared | None = None


def sentence_of(classes: Mapping[str, ClassComparison], clock: WallClock, telling: Telling) -> str:
    """
    Return one short paragraph: what voids or clouds it, the headline question, other classes, time, builds.

    The headline is garbage loops. Another class is told as fully only where something may be said of it, and failures
    of any class only where it may be of none by itself; the rest is in `details_of`.
    """
    others = {name: found for name, found in classes.items() if name not in (_FIRST, ANY_FAILURE) and _events(found)}
    decided = [name for name, found in others.items() if _decided(found)]
    if not decided and not _decided(classes[_FIRST]) and _decided(classes[ANY_FAILURE]):
        decided = [ANY_FAILURE]
    parts = [
        *_clouds(telling),
        tasks_sentence(telling.tasks, void=bool(telling.invalid)) if telling.tasks else "",
        _class_text(_FIRST, classes[_FIRST], _unit(telling.pairing), telling),
        *(_class_text(name, classes[name], "", telling) for name in decided),
        _others_text({name: found for name, found in others.items() if name not in decided}, telling),
        *_conversation_texts(telling.conversations),
        _time_text(clock),
        _noise_text(telling.noise),
        f"Builds: {_shortened(telling.versions, _LINE)}.",
    ]
    return " ".join(part for part in parts if part)


def details_of(classes: Mapping[str, ClassComparison], telling: Telling) -> list[str]:
    """Return what the paragraph leaves out: what each other class that occurred is worth, and what would settle it."""
    unit = _unit(telling.pairing).split(" in ")[0]
    seen = [name for name, found in classes.items() if name != ANY_FAILURE and _events(found)]
    told = [name for name in seen if name != _FIRST] + [ANY_FAILURE] * (len(seen) > 1)
    return [_class_text(name, classes[name], unit, telling) for name in told]


def _unit(pairing: Pairing) -> str:
    if pairing.own_ways:
        return f"turns in {pairing.clusters} episodes, which each arm carried on with its own answers"
    return f"paired turns in {pairing.clusters} episodes" if pairing.pairs else "turns (unpaired)"


def _events(found: ClassComparison) -> int:
    return found.baseline.events + found.candidate.events


def _decided(found: ClassComparison) -> bool:
    return found.result in ("improvement", "regression")


def _clouds(telling: Telling) -> Iterator[str]:
    """Yield what must be read before any number: the first reason of each kind, and how many more there are."""
    if telling.invalid:
        yield f"No conclusion may be drawn: {_first(telling.invalid)}."
    if telling.warnings:
        yield _as_sentence(_first(telling.warnings))
    if telling.same:
        told = ", as far as their servers tell" if telling.hidden else ""
        yield f"Both arms ran the same build (A/A){told}: what differs is the noise floor."


def _first(texts: Sequence[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"{_shortened(texts[0], _LINE)}{more}"


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _others_text(others: Mapping[str, ClassComparison], telling: Telling) -> str:
    """Return the counts of the other classes that occurred, and what may be said of them: nothing, or equivalent."""
    told = [f"{TITLES[name]} {found.baseline.events} → {found.candidate.events}" for name, found in others.items()]
    if not told:
        return ""
    same = not telling.invalid and all(found.result == "equivalent" for found in others.values())
    return _as_sentence(f"{', '.join(told)}: {'equivalent' if same else 'not distinguishable from no change'}")


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


def _class_text(name: str, found: ClassComparison, unit: str, telling: Telling) -> str:
    title, terms = TITLES[name], telling.terms
    turns = _turns_text(found)
    counts = f"{title[0].upper()}{title[1:]} {found.baseline.events} → {found.candidate.events}"
    counts += f" of {turns} {unit}" if unit else ""
    if found.baseline.events + found.candidate.events == 0:
        return f"{counts}{_none_seen(found)}{'' if telling.invalid else _equivalence(found, terms.margin)}."
    by_evidence = terms.decide is not None and found.evidence is not None
    worth = _evidence_text(found.evidence) if by_evidence and found.evidence else _p_text(found)
    evidence = "; ".join(text for text in (_effect(found), worth, _both_text(found)) if text)
    return f"{counts} ({evidence}). {_conclusion(found, telling)}" if evidence else f"{counts}. {_ALONE}"


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
    low, high = map(_points, found.ci95)
    return f"difference {_points(found.difference)} points, 95 % {low} to {high}"


def _points(share: float) -> str:
    """Return a difference of shares in points with two significant digits: +5.7, -0.25, +100."""
    return f"{100 * share:+.2g}" if abs(share) < 0.995 else f"{100 * share:+.0f}"


def _p_text(found: ClassComparison) -> str:
    if found.p_value is None:
        return ""
    test = found.test.split(",")[0].removesuffix(" on paired turns")
    adjusted = found.p_adjusted
    corrected = adjusted is not None and adjusted != found.p_value
    more = f", {two_digits(adjusted)} corrected for the classes tested" if corrected and adjusted is not None else ""
    return f"p = {two_digits(found.p_value)} by {test}{more}".replace("= <", "< ")


def _both_text(found: ClassComparison) -> str:
    return "" if found.both is None else f"{found.both} failed in both"


def _conclusion(found: ClassComparison, telling: Telling) -> str:
    terms = telling.terms
    if found.result == "inconclusive":
        return f"Not distinguishable from no change.{_needed_text(found, found.needed)}"
    if telling.invalid:
        return "What that would mean is open."
    if found.result == "equivalent":
        return f"Equivalent within the stated margin of {percent(terms.margin or 0.0)}."
    if telling.same:
        chance = percent(terms.alpha)
        return (
            f"The two runs differ, as two of one build do by chance at most {chance} of the time: what else differed?"
        )
    word = "fewer" if found.result == "improvement" else "more"
    if terms.decide is not None:
        chance = percent(terms.alpha)
        return f"The candidate has {word}: the evidence reached its bar, as it would by chance at most {chance}."
    return f"The candidate has {word}: the interval of the difference excludes no change."


def _needed_text(found: ClassComparison, needed: Needed | None) -> str:
    """
    Return what would settle it: turns per arm at these rates, and what these turns could have shown.

    Unpaired arms have no estimate of how failures crowd in episodes, so that assumption is said.
    """
    if found.turns_needed_80 is None or needed is None:
        return " Were the true rates as equal as these, no number of turns would tell them apart."
    text = f" At these rates 80 % power needs about {rounded_up(found.turns_needed_80)} turns per arm"
    text += " if turns fail independently of one another" if found.both is None else ""
    paired = found.turns_needed_80_paired
    if found.both and paired is not None and paired < found.turns_needed_80:
        text += f" ({rounded_up(paired)} if failures recur on the same turns as they did here)"
    if needed.turns is not None and (found.design_effect or 1.0) > _DESIGN_EFFECT_TOLD:
        text += f", {rounded_up(needed.turns)} as failures crowd in episodes here"
    return text + _lasting(found.turns_needed_80, needed) + _visible(found, needed) + "."


def _lasting(told: int, needed: Needed) -> str:
    """Return how long the needed turns take; their number too, where it is not about the one `told`."""
    if needed.hours is None or needed.turns is None:
        return ""
    same = abs(needed.turns - told) <= _ABOUT * told
    return f"{',' if same else f'; {rounded_up(needed.turns)} take'} about {duration(3600 * needed.hours)} here"


def _visible(found: ClassComparison, needed: Needed) -> str:
    """Return the drop that the turns at hand would have shown with 80 % power."""
    if needed.detectable_events is None:
        return ""
    return f"; with {needed.seen_turns:,} you could have seen {found.baseline.events} → {needed.detectable_events}"


def _time_text(clock: WallClock) -> str:
    """Return the turn time, its ratio, and the classes that made most of the change; the rest is a detail."""
    if clock.baseline_s is None or clock.candidate_s is None or clock.ratio is None:
        return ""
    bound = {"at_least": "at least ", "at_most": "at most "}.get(clock.bound, "")
    limits = f", 95 % {two_digits(clock.ci95[0])}–{two_digits(clock.ci95[1])}" if clock.ci95 else ""
    text = (
        f"Turn time {duration(clock.baseline_s)} → {duration(clock.candidate_s)}"
        f" (ratio {bound}{two_digits(clock.ratio)}{limits})"
    )
    if clock.bound == "unknown":
        text += ", cut in both arms, so the ratio may lie on either side"
    elif clock.result == "equivalent":
        text += ", equivalent within the stated margin"
    elif clock.ci95 is not None and clock.result == "inconclusive":
        text += ", not distinguishable from no change"
    shares = _shares(clock.explained_by)
    explained = f": {', '.join(shares)}{_cause(clock)}" if shares else ""
    return f"{text}{explained}{_span_text(clock.makespan)}."


def _span_text(span: Makespan | None) -> str:
    """Return what the time from first to last turn comes to (`makespan`); nothing with one conversation in flight."""
    if span is None or span.in_flight < 2:
        return ""
    times = f"{duration(span.baseline_s)} → {duration(span.candidate_s)}"
    return f"; scheduled with {span.in_flight} conversations at once {times} from first to last"


def _shares(by_class: Mapping[str, float]) -> list[str]:
    """Return the classes that made most of a change and how much each, the largest first."""
    ranked = sorted(by_class.items(), key=lambda item: -abs(item[1]))[:_SHARES_TOLD]
    return [f"{_signed(s)} in {TITLES[name]}" for name, s in ranked if abs(s) >= _CHANGE_SHOWN_S]


def _cause(clock: WallClock) -> str:
    """Return whether it was longer answers, speed or something else, where one of them made most of a change."""
    parts = clock.explained_by_part
    name = max(parts, key=lambda name: abs(parts[name]), default=None)
    if name is None or abs(parts[name]) < max(sum(map(abs, parts.values())) / 2, _CHANGE_SHOWN_S):
        return ""
    return f", most of it by {_PARTS[name]}"


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else '−'}{duration(abs(seconds))}"


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

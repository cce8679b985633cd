"""Two arms' histories → `soak.comparison/1`: validity, each class, wall clock, latency, trends, one honest sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from soak.check.cards import build_names, notes_on, same_build, same_run, versions_of, warnings_on
from soak.check.classes import ANY_FAILURE, compare_classes
from soak.check.conversations import compare_conversations
from soak.check.environment import card_difference, same_arm_warning
from soak.check.latency import compare_goodput, compare_latency
from soak.check.noise import noise_floor
from soak.check.pairing import ArmHistory, Pairing, invalid_reasons, pair_up, works_on_tasks
from soak.check.sentence import Telling, details_of, sentence_of
from soak.check.stated import Stated, Terms, terms_of
from soak.check.survival import compare_survival
from soak.check.tasks import compare_tasks
from soak.check.trends import compare_drift, compare_trends
from soak.check.wallclock import wall_clock
from soak.facts import CardDifference, ClassComparison, Comparison, TaskComparison, WallClock
from soak.facts.summary import Verdict

__all__ = ["ArmHistory", "Stated", "compare"]


def compare(baseline: ArmHistory, candidate: ArmHistory, stated: Stated | None = None) -> Comparison:
    """
    Return the two arms side by side.

    Turns are paired by episode, turn and pass where both arms finished them; without any pair all finished turns are
    compared unpaired. Where the arms' own answers carried conversations on (live replay) turns are never paired: the
    unit is the episode. `stated` holds margins and limits said beforehand.

    An agent's tasks are paired by task and pass, its turns are not; tasks are a question of their own, asked at 5 %
    beside the classes. Verdict: *unknown* if `invalid` says anything; else *fail* if any class, or the tasks resolved,
    is a regression; *pass* if none is and the evidence is positive: a class improved, or all are equivalent; else
    *unknown*, for "no difference seen" is not "no difference". A result is improvement or regression only where the
    interval of the difference excludes 0 and the p-value, adjusted for all classes tested (Holm), is below 0.05; in a
    run of two arms whose scenario says `decide`, only where its anytime evidence reached the bar.
    Raises `RunFolderError` if a manifest's scenario cannot be read.
    """
    stated = stated or Stated()
    sides = _Sides(baseline, candidate, pair_up(baseline, candidate), terms_of(baseline, candidate, stated))
    asked = _asked(sides)
    return _with_measures(_concluded(sides, asked), sides, stated)


@dataclass(frozen=True)
class _Sides:
    """Both arms, how their turns go together, and what the comparison is held to."""

    baseline: ArmHistory
    candidate: ArmHistory
    pairing: Pairing
    terms: Terms


@dataclass(frozen=True)
class _Asked:
    """The answers to the questions asked of both arms, `telling` what the words for them need besides."""

    classes: dict[str, ClassComparison]
    clock: WallClock
    cards: CardDifference | None
    notes: list[str]
    telling: Telling


def _asked(sides: _Sides) -> _Asked:
    """Ask the questions that the verdict and its sentence rest on."""
    baseline, candidate, pairing, terms = sides.baseline, sides.candidate, sides.pairing, sides.terms
    classes, dependence_notes = compare_classes(pairing, terms, turns_per_s=_pace(baseline, candidate, pairing))
    clock = wall_clock(baseline, candidate, pairing, terms)
    cards = card_difference(baseline.card, candidate.card)
    return _Asked(
        classes=classes,
        clock=clock,
        cards=cards,
        notes=[*notes_on(baseline, candidate, pairing), *dependence_notes],
        telling=_telling(sides, classes, clock, cards),
    )


def _telling(
    sides: _Sides, classes: Mapping[str, ClassComparison], clock: WallClock, cards: CardDifference | None
) -> Telling:
    """Return what voids or clouds the comparison, and what else its words need."""
    baseline, candidate, pairing, terms = sides.baseline, sides.candidate, sides.pairing, sides.terms
    same = same_build(baseline, candidate)
    return Telling(
        invalid=invalid_reasons(baseline, candidate, pairing, min_turns=terms.min_turns),
        warnings=[*same_arm_warning(cards), *warnings_on(baseline, candidate)],
        versions=versions_of(baseline, candidate),
        pairing=pairing,
        terms=terms,
        noise=noise_floor(pairing, classes[ANY_FAILURE], clock) if same else None,
        same=same,
        hidden=cards is None or not cards.built,
        tasks=compare_tasks(baseline.ends, candidate.ends) if works_on_tasks(baseline) else None,
        conversations=compare_conversations(
            (baseline.conversations, baseline.turns), (candidate.conversations, candidate.turns)
        ),
    )


def _concluded(sides: _Sides, asked: _Asked) -> Comparison:
    """Return the comparison with its verdict and its words."""
    pairing, telling = sides.pairing, asked.telling
    verdict = _verdict(telling.invalid, asked.classes, telling.tasks)
    return Comparison(
        baseline=sides.baseline.label,
        candidate=sides.candidate.label,
        pairs=len(pairing.pairs),
        unpaired=len(pairing.baseline_alone) + len(pairing.candidate_alone),
        clusters=pairing.clusters,
        classes=asked.classes,
        wall_clock=asked.clock,
        invalid=list(telling.invalid),
        verdict=verdict,
        verdict_by_evidence=verdict,
        sentence=sentence_of(asked.classes, asked.clock, telling),
        details=details_of(asked.classes, telling),
        notes=asked.notes,
        warnings=list(telling.warnings),
        builds=build_names(sides.baseline, sides.candidate),
        noise_floor=telling.noise,
        tasks=telling.tasks,
        cards=asked.cards,
        conversations=telling.conversations,
    )


def _with_measures(found: Comparison, sides: _Sides, stated: Stated) -> Comparison:
    """Add what is told beside the verdict and does not change it: terms, latency, goodput, survival, trends, drift."""
    baseline, candidate, pairing, terms = sides.baseline, sides.candidate, sides.pairing, sides.terms
    return msgspec.structs.replace(
        found,
        alpha=terms.alpha,
        margin=terms.margin,
        time_margin=terms.time_margin,
        latency=compare_latency(pairing),
        goodput=compare_goodput(baseline, candidate, pairing, stated),
        survival=compare_survival(pairing),
        trends=compare_trends(baseline, candidate, pairing),
        drift=compare_drift(baseline, candidate, pairing),
    )


def _pace(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> float | None:
    """Return the paired turns per second of run time, both arms' times added where they ran one after the other."""
    first, second = baseline.summary.wall_s, candidate.summary.wall_s
    took_s = first if same_run(baseline, candidate) else first + second
    return len(pairing.pairs) / took_s if pairing.pairs and took_s > 0 else None


def _verdict(invalid: Sequence[str], classes: Mapping[str, ClassComparison], tasks: TaskComparison | None) -> Verdict:
    results = [found.result for found in classes.values()] + ([tasks.result] if tasks is not None else [])
    if invalid:
        return "unknown"
    if "regression" in results:
        return "fail"
    if "improvement" in results or all(result == "equivalent" for result in results):
        return "pass"
    return "unknown"

"""Two arms' histories → `soak.comparison/1`: validity, each class, wall clock, latency, trends, one honest sentence."""

from collections.abc import Mapping

from soak.check.cards import build_names, notes_on, same_build, same_run, versions_of, warnings_on
from soak.check.classes import ANY_FAILURE, compare_classes
from soak.check.conversations import compare_conversations
from soak.check.environment import card_difference, same_arm_warning
from soak.check.latency import compare_goodput, compare_latency
from soak.check.noise import noise_floor
from soak.check.pairing import ArmHistory, Pairing, invalid_reasons, pair_up, works_on_tasks
from soak.check.sentence import Telling, details_of, sentence_of
from soak.check.stated import Stated, terms_of
from soak.check.survival import compare_survival
from soak.check.tasks import compare_tasks
from soak.check.trends import compare_drift, compare_trends
from soak.check.wallclock import wall_clock
from soak.facts import ClassComparison, Comparison, TaskComparison
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
    terms = terms_of(baseline, candidate, stated)
    pairing = pair_up(baseline, candidate)
    invalid = invalid_reasons(baseline, candidate, pairing, min_turns=terms.min_turns)
    classes, dependence_notes = compare_classes(pairing, terms, turns_per_s=_pace(baseline, candidate, pairing))
    notes = [*notes_on(baseline, candidate, pairing), *dependence_notes]
    clock = wall_clock(baseline, candidate, pairing, terms)
    cards = card_difference(baseline.card, candidate.card)
    warnings = [*same_arm_warning(cards), *warnings_on(baseline, candidate)]
    same = same_build(baseline, candidate)
    noise = noise_floor(pairing, classes[ANY_FAILURE], clock) if same else None
    tasks = compare_tasks(baseline.ends, candidate.ends) if works_on_tasks(baseline) else None
    conversations = compare_conversations(
        (baseline.conversations, baseline.turns), (candidate.conversations, candidate.turns)
    )
    telling = Telling(
        invalid=invalid,
        warnings=warnings,
        versions=versions_of(baseline, candidate),
        pairing=pairing,
        terms=terms,
        noise=noise,
        same=same,
        hidden=cards is None or not cards.built,
        tasks=tasks,
        conversations=conversations,
    )
    verdict = _verdict(invalid, classes, tasks)
    return Comparison(
        baseline=baseline.label,
        candidate=candidate.label,
        pairs=len(pairing.pairs),
        unpaired=len(pairing.baseline_alone) + len(pairing.candidate_alone),
        clusters=pairing.clusters,
        classes=classes,
        wall_clock=clock,
        invalid=invalid,
        verdict=verdict,
        verdict_by_evidence=verdict,
        sentence=sentence_of(classes, clock, telling),
        details=details_of(classes, telling),
        notes=notes,
        warnings=warnings,
        builds=build_names(baseline, candidate),
        alpha=terms.alpha,
        margin=terms.margin,
        time_margin=terms.time_margin,
        latency=compare_latency(pairing),
        goodput=compare_goodput(baseline, candidate, pairing, stated),
        survival=compare_survival(pairing),
        trends=compare_trends(baseline, candidate, pairing),
        drift=compare_drift(baseline, candidate, pairing),
        noise_floor=noise,
        tasks=tasks,
        cards=cards,
        conversations=conversations,
    )


def _pace(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> float | None:
    """Return the paired turns per second of run time, both arms' times added where they ran one after the other."""
    first, second = baseline.summary.wall_s, candidate.summary.wall_s
    took_s = first if same_run(baseline, candidate) else first + second
    return len(pairing.pairs) / took_s if pairing.pairs and took_s > 0 else None


def _verdict(invalid: list[str], classes: Mapping[str, ClassComparison], tasks: TaskComparison | None) -> Verdict:
    results = [found.result for found in classes.values()] + ([tasks.result] if tasks is not None else [])
    if invalid:
        return "unknown"
    if "regression" in results:
        return "fail"
    if "improvement" in results or all(result == "equivalent" for result in results):
        return "pass"
    return "unknown"

"""What load shapes and secret words came to on one arm: foreign words, recall, aborted turns, preemption."""

from collections.abc import Iterator, Mapping, Sequence

from soak.check.turns import TurnFact
from soak.check.verdicts import Opinion
from soak.check.wording import percent, plural, two_digits
from soak.facts import ArmSummary, CanaryCounts, Event, Scenario
from soak.stats import clopper_pearson, fisher

SHAPED = "shaped"
"""The kind of the events in which a sitting says what its load came to."""


def canary_counts(turns: Sequence[TurnFact]) -> CanaryCounts:
    """Return the secret words found in one arm's answers: others', and its own where a turn asked for it."""
    recalled, lost = (sum(kind in turn.kinds for turn in turns) for kind in ("canary_recalled", "canary_lost"))
    asked = recalled + lost
    interval = clopper_pearson(recalled, asked)
    return CanaryCounts(
        contaminated=sum("contamination" in turn.kinds for turn in turns),
        asked=asked,
        recalled=recalled,
        recall_rate=recalled / asked if asked else None,
        recall_ci95=None if interval is None else (interval.low, interval.high),
    )


def shape_opinions(scenario: Scenario, arm: ArmSummary, events: Sequence[Event]) -> list[Opinion]:
    """
    Return what the load's shapes say of the arm.

    One foreign word is *fail*, whatever the thresholds: it cannot be there by chance. Pressure without a preemption
    is *unknown*, for what was asked was not tried. Recall is told, and decides nothing.
    """
    said = [Opinion("pass", (event.text,)) for event in events if event.kind == SHAPED]
    if arm.turns.aborted:
        text = f"{plural(arm.turns.aborted, 'turn')} aborted by us, as planned: load and no evidence, in no class"
        said.append(Opinion("pass", (text,)))
    return [*said, *_words(arm.canaries), *_pressure(scenario, arm)]


def word_warnings(arms: Mapping[str, CanaryCounts | None]) -> list[str]:
    """Return that answers of an arm (by its label) held other conversations' words: it is no matter of rates."""
    return [
        f"{label}: {plural(found.contaminated, 'answer')} held another conversation's secret word; each one is certain"
        for label, found in arms.items()
        if found is not None and found.contaminated
    ]


def recall_notes(baseline: CanaryCounts | None, candidate: CanaryCounts | None) -> list[str]:
    """Return both arms' recall of secret words side by side, with Fisher's exact p-value (turns as independent)."""
    if baseline is None or candidate is None or not baseline.asked or not candidate.asked:
        return []
    p_value = fisher((baseline.recalled, baseline.asked), (candidate.recalled, candidate.asked))
    told = "" if p_value is None else f" (Fisher exact p = {two_digits(p_value)})"
    return [
        f"secret words recalled: {baseline.recalled} of {baseline.asked} →"
        f" {candidate.recalled} of {candidate.asked} turns that asked{told}"
    ]


def _words(found: CanaryCounts | None) -> Iterator[Opinion]:
    if found is None:
        return
    if found.contaminated:
        held = f"{plural(found.contaminated, 'answer')} held another conversation's secret word"
        yield Opinion("fail", (f"contamination: {held}; each one is certain",))
    else:
        yield Opinion("pass", ("no answer held another conversation's secret word",))
    if found.recall_rate is not None and found.recall_ci95 is not None:
        low, high = found.recall_ci95
        share = f"{percent(found.recall_rate)} (95 % {percent(low)} to {percent(high)})"
        text = f"{found.recalled} of {found.asked} turns that asked for their own secret word got it: {share}"
        yield Opinion("pass", (f"{text}; says something beside another arm's only",))


def _pressure(scenario: Scenario, arm: ArmSummary) -> Iterator[Opinion]:
    if scenario.load.pressure is None:
        return
    preemptions = arm.engine.get("preemptions")
    if preemptions:
        yield Opinion("pass", (f"the engine preempted {plural(int(preemptions), 'request')}",))
    elif preemptions is None:
        yield Opinion("unknown", ("whether the engine preempted is not known: no counter of preemptions was read",))
    else:
        yield Opinion("unknown", ("no preemption seen: what happens under pressure was not tried",))

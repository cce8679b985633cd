"""The engine's evidence on one arm: what it did turn by turn, in groups of turns, and what about that is alarming."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from soak.check.acceptance import acceptance, acceptance_bands
from soak.check.acceptance_drift import acceptance_drift
from soak.check.attribution import Span
from soak.check.engine_findings import band_words, findings, measured_kinds
from soak.check.engine_limits import (
    ARM_DRAFT_TOKENS,
    DRIFT_POINTS,
    FINDINGS_SHOWN,
    FULL_RATE,
    HEALTHY_RATE,
    NONE_RATE,
)
from soak.check.engine_turns import engine_turns
from soak.check.turns import TurnFact
from soak.check.wording import number, percent, plural
from soak.facts import (
    CLASSES,
    AcceptanceBand,
    AcceptanceDrift,
    AcceptanceGroup,
    EngineEvidence,
    EngineSample,
    EngineTurn,
    SeenInTurn,
)


def turns_with_findings(
    turns: Sequence[TurnFact], samples: Sequence[EngineSample], elsewhere: Sequence[Span] = ()
) -> list[EngineTurn]:
    """Return what the engine did for each finished turn of one arm, with its findings (see `engine_turns`)."""
    found = engine_turns(turns, samples, elsewhere)
    return _with_findings(found, acceptance_bands(found))


def _with_findings(turns: Sequence[EngineTurn], bands: Sequence[AcceptanceBand]) -> list[EngineTurn]:
    collapsed = collapsed_bands(bands)
    said = ((turn, findings(turn, collapsed)) for turn in turns)
    return [msgspec.structs.replace(turn, findings=told) if told else turn for turn, told in said]


def engine_evidence(
    turns: Sequence[TurnFact], samples: Sequence[EngineSample], elsewhere: Sequence[Span] = ()
) -> EngineEvidence:
    """Return the engine's evidence on one arm (see `engine_turns`)."""
    bare = engine_turns(turns, samples, elsewhere)
    bands = acceptance_bands(bare)
    found = _with_findings(bare, bands)
    whose = Counter(turn.attributed for turn in found)
    classes = {turn.key: turn.class_ for turn in turns}
    drift = acceptance_drift(turns, found, samples)
    return EngineEvidence(
        alone=whose["alone"],
        overlap=whose["overlap"],
        unread=whose[None],
        told=sum(turn.told for turn in found),
        findings=_counts(found),
        seen=_seen(found),
        by_depth=bands,
        by_class={
            name: group
            for name in CLASSES
            if (group := acceptance(turn for turn in found if classes[turn.key] == name)) is not None
        },
        drift=drift,
        alarms=[*_alarms(found, bands), *_drift_alarm(drift)],
    )


def collapsed_bands(bands: Sequence[AcceptanceBand]) -> list[AcceptanceBand]:
    """Return the bands in which next to nothing is accepted while the others accept as usual."""
    return [band for band in bands if _refused(band.acceptance) and (_rest(bands, band) or 0.0) >= HEALTHY_RATE]


def _refused(group: AcceptanceGroup) -> bool:
    return group.draft_tokens >= ARM_DRAFT_TOKENS and (group.acceptance_rate or 0.0) < NONE_RATE


def _rest(bands: Sequence[AcceptanceBand], band: AcceptanceBand) -> float | None:
    """Return the acceptance rate of the bands that have not collapsed; None where too little was drafted in them."""
    others = [other.acceptance for other in bands if other is not band and not _refused(other.acceptance)]
    tokens = sum(group.draft_tokens for group in others)
    return sum(group.accepted_tokens for group in others) / tokens if tokens >= ARM_DRAFT_TOKENS else None


def _alarms(turns: Sequence[EngineTurn], bands: Sequence[AcceptanceBand]) -> Iterator[str]:
    """
    Yield what is wrong with the acceptance of the whole arm: bands without any, and one that is too good everywhere.

    That hardly anything is accepted in the whole arm is told by `validity`, which asks whether the arm tested at all.
    """
    for band in collapsed_bands(bands):
        rest = percent(_rest(bands, band) or 0.0)
        yield f"acceptance has collapsed for {band_words(band)}; elsewhere {rest} are accepted"
    whole = acceptance(turns)
    if whole is None or whole.draft_tokens < ARM_DRAFT_TOKENS or (whole.acceptance_rate or 0.0) < FULL_RATE:
        return
    if all((band.acceptance.acceptance_rate or 0.0) >= FULL_RATE for band in bands):
        yield (
            f"nearly every draft is accepted, whatever the prompt: {number(round(whole.accepted_tokens))} of"
            f" {number(round(whole.draft_tokens))} draft tokens ({percent(whole.acceptance_rate or 0.0)}); either the"
            " answers are loops, or drafts are not verified"
        )


def _counts(turns: Sequence[EngineTurn]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for turn in turns:
        for kind in measured_kinds(turn):
            counts.setdefault(kind, 0)
        for finding in turn.findings:
            counts[finding.kind] = counts.get(finding.kind, 0) + 1
    return counts


def _seen(turns: Sequence[EngineTurn]) -> list[SeenInTurn]:
    """Return the first findings, the rarest kinds before the others: many of one must not hide one of another."""
    seen: dict[str, list[SeenInTurn]] = defaultdict(list)
    for turn in turns:
        for finding in turn.findings:
            seen[finding.kind].append(SeenInTurn(turn=str(turn.key), finding=finding))
    ranked = sorted(seen.values(), key=len)
    return [one for group in ranked for one in group][:FINDINGS_SHOWN]


def _drift_alarm(drift: AcceptanceDrift) -> Iterator[str]:
    """Yield a change at a fixed mix that is sure and large enough to matter."""
    if drift.change is None or drift.ci95 is None or abs(drift.change) < DRIFT_POINTS:
        return
    low, high = drift.ci95
    if low <= 0 <= high:
        return
    way = "fell" if drift.change < 0 else "rose"
    yield (
        f"acceptance {way} by {100 * abs(drift.change):.1f} points over the uptime between like turns"
        f" (95 % {100 * low:.1f} to {100 * high:.1f}; {plural(drift.conversations, 'conversation')})"
    )

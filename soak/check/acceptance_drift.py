"""Whether acceptance changed over the uptime of the engine, held against what was asked of it."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from soak.check.acceptance import acceptance, band_of
from soak.check.engine_limits import DRIFT_CONVERSATIONS
from soak.check.turns import TurnFact, episode_numbers
from soak.check.uptime import MIN_SLOPE_S, uptimes_s
from soak.check.wording import duration, plural
from soak.facts import AcceptanceDrift, EngineSample, EngineTurn
from soak.stats import Stratum, standardised_change


def acceptance_drift(
    turns: Sequence[TurnFact], found: Sequence[EngineTurn], samples: Sequence[EngineSample]
) -> AcceptanceDrift:
    """
    Return how acceptance changed from the first to the second half of the uptime, pooled and at a fixed mix of turns.

    Pooled acceptance follows what is asked: in a public 13-hour soak it fell by 8.4 points while it rose by 1.6 at a
    fixed mix (Blackwellboy/model-serving-minefield, its soak playbook). So turns are compared with turns of the same
    conversation and the same band of prompt length only, by `stats.standardised_change`, whose unit is the
    conversation: each stratum has one weight for both halves. What has no counterpart in the other half says nothing;
    a corpus that is gone through once has few that do.
    """
    fact_of = {turn.key: turn for turn in turns}
    drafted = [turn for turn in found if turn.draft_tokens and turn.accepted_tokens is not None]
    uptimes = uptimes_s([fact_of[turn.key] for turn in drafted], _engine_starts_at(samples))
    exposure_s = max(uptimes) - min(uptimes) if uptimes else 0.0
    middle = min(uptimes, default=0.0) + exposure_s / 2
    halves = [
        [turn for turn, at in zip(drafted, uptimes, strict=True) if (at > middle) is late] for late in (False, True)
    ]
    early, late = (group.acceptance_rate if (group := acceptance(half)) else None for half in halves)
    pooled = AcceptanceDrift(
        early=early,
        late=late,
        pooled_change=late - early if early is not None and late is not None else None,
        exposure_s=exposure_s,
    )
    return _standardised(pooled, _strata(*halves))


def _standardised(pooled: AcceptanceDrift, strata: Sequence[Stratum]) -> AcceptanceDrift:
    both = len({stratum.cluster for stratum in strata if stratum.early[1] > 0 and stratum.late[1] > 0})
    if pooled.exposure_s < MIN_SLOPE_S:
        why = f"too short to say ({duration(pooled.exposure_s)} of turns with drafts; it needs {duration(MIN_SLOPE_S)})"
    elif both < DRIFT_CONVERSATIONS:
        why = (
            f"not enough to say: {plural(both, 'conversation')} with like turns in both halves of the uptime; it needs"
            f" {DRIFT_CONVERSATIONS} (a corpus that is gone through twice has them)"
        )
    else:
        change = standardised_change(strata)
        assert change is not None, "strata with turns in both halves have a change"
        assert change.interval is not None, "five conversations have an interval"
        limits = (change.interval.low, change.interval.high)
        return msgspec.structs.replace(pooled, change=change.value, ci95=limits, conversations=both)
    return msgspec.structs.replace(pooled, conversations=both, unknown_because=why)


def _strata(early: Sequence[EngineTurn], late: Sequence[EngineTurn]) -> list[Stratum]:
    """Return accepted and draft tokens of both halves by conversation and band, of turns whose length is known."""
    sums: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0] * 4)
    for half, turns in enumerate((early, late)):
        for turn in turns:
            if turn.prompt is not None:
                cell = sums[turn.key.episode, band_of(turn.prompt)]
                cell[2 * half] += turn.accepted_tokens or 0.0
                cell[2 * half + 1] += turn.draft_tokens or 0.0
    clusters = episode_numbers(episode for episode, _ in sums)
    return [
        Stratum(cluster, (cell[0], cell[1]), (cell[2], cell[3]))
        for cluster, cell in zip(clusters, sums.values(), strict=True)
    ]


def _engine_starts_at(samples: Sequence[EngineSample]) -> list[float]:
    return sorted({sample.process_start_at for sample in samples if sample.process_start_at is not None})

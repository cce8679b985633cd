"""Acceptance of turns together: any of them, and by prompt length."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from soak.check.engine_limits import DEPTH_EDGES
from soak.facts import AcceptanceBand, AcceptanceGroup, EngineTurn


def acceptance(turns: Iterable[EngineTurn]) -> AcceptanceGroup | None:
    """Return the acceptance of turns together; None if nothing was drafted for any of them."""
    count, drafts, tokens, accepted, exact, counted = 0, 0.0, 0.0, 0.0, 0.0, True
    for turn in turns:
        if not turn.draft_tokens or turn.accepted_tokens is None:
            continue
        count += 1
        drafts += turn.drafts or 0.0
        tokens += turn.draft_tokens
        accepted += turn.accepted_tokens
        exact += turn.draft_tokens if turn.exact else 0.0
        counted = counted and turn.drafts is not None
    if not count:
        return None
    return AcceptanceGroup(
        turns=count,
        drafts=drafts,
        draft_tokens=tokens,
        accepted_tokens=accepted,
        acceptance_length=1 + accepted / drafts if counted and drafts else None,
        acceptance_rate=accepted / tokens,
        exact=exact / tokens,
    )


def band_of(prompt: int) -> int:
    """Return where the band of this prompt length begins."""
    return DEPTH_EDGES[max(bisect_right(DEPTH_EDGES, prompt) - 1, 0)]


def acceptance_bands(turns: Sequence[EngineTurn]) -> list[AcceptanceBand]:
    """Return the acceptance by prompt length, in the bands that hold a draft; turns of unknown length are left out."""
    groups: dict[int, list[EngineTurn]] = defaultdict(list)
    for turn in turns:
        if turn.prompt is not None:
            groups[band_of(turn.prompt)].append(turn)
    highs = {**dict(pairwise(DEPTH_EDGES)), DEPTH_EDGES[-1]: None}
    found = ((low, acceptance(groups[low])) for low in sorted(groups))
    return [AcceptanceBand(low=low, high=highs[low], acceptance=group) for low, group in found if group is not None]

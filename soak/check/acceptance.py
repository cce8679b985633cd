"""Acceptance of turns together: any of them, and by prompt length."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from soak.check.engine_limits import DEPTH_EDGES
from soak.facts import AcceptanceBand, AcceptanceGroup, EngineTurn


def acceptance(turns: Iterable[EngineTurn]) -> AcceptanceGroup | None:
    """Return the acceptance of turns together; None if nothing was drafted for any of them."""
    drafted = [turn for turn in turns if turn.draft_tokens and turn.accepted_tokens is not None]
    if not drafted:
        return None
    tokens = sum(turn.draft_tokens or 0.0 for turn in drafted)
    accepted = sum(turn.accepted_tokens or 0.0 for turn in drafted)
    drafts = sum(turn.drafts or 0.0 for turn in drafted)
    counted = all(turn.drafts is not None for turn in drafted) and drafts > 0
    return AcceptanceGroup(
        turns=len(drafted),
        drafts=drafts,
        draft_tokens=tokens,
        accepted_tokens=accepted,
        acceptance_length=1 + accepted / drafts if counted else None,
        acceptance_rate=accepted / tokens,
        exact=sum(turn.draft_tokens or 0.0 for turn in drafted if turn.exact) / tokens,
    )


def band_of(prompt: int) -> int:
    """Return where the band of this prompt length begins."""
    return max((edge for edge in DEPTH_EDGES if edge <= prompt), default=0)


def acceptance_bands(turns: Sequence[EngineTurn]) -> list[AcceptanceBand]:
    """Return the acceptance by prompt length, in the bands that hold a draft; turns of unknown length are left out."""
    groups: dict[int, list[EngineTurn]] = defaultdict(list)
    for turn in turns:
        if turn.prompt is not None:
            groups[band_of(turn.prompt)].append(turn)
    highs = {**dict(pairwise(DEPTH_EDGES)), DEPTH_EDGES[-1]: None}
    found = ((low, acceptance(groups[low])) for low in sorted(groups))
    return [AcceptanceBand(low=low, high=highs[low], acceptance=group) for low, group in found if group is not None]

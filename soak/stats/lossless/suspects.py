"""The tokens hardest to believe, each with the sentence that says why."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from soak.facts import LosslessToken, RescoredOutput
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.scores import Scores


def worst_tokens(scores: Scores, outputs: Sequence[RescoredOutput], bars: Bars) -> tuple[LosslessToken, ...]:
    """Return the impossible tokens first, then those outside, then the least probable: at most `bars.worst`."""
    tier = np.where(scores.impossible, 0, np.where(scores.outside, 1, 2))
    order = np.lexsort((scores.position, scores.output, scores.logprob, tier))[: bars.worst]
    return tuple(_token(scores, int(row), outputs[int(scores.output[row])]) for row in order)


def _token(scores: Scores, row: int, output: RescoredOutput) -> LosslessToken:
    position = int(scores.position[row])
    expected = _expected(scores, row)
    tier = 1 if scores.impossible[row] else 2 if scores.outside[row] else 0
    mark, distance = _nearest(output, position)
    token = LosslessToken(
        key=output.key,
        position=position,
        token_id=int(scores.token[row]),
        logprob=float(scores.logprob[row]),
        rank=int(scores.rank[row]),
        top_id=int(scores.top_token[row]),
        top_logprob=float(scores.top_logprob[row]),
        above=float(scores.above[row]),
        tier=tier,  # type: ignore[arg-type]  # 0, 1 or 2 by the line above
        expected=expected,
        mark=mark,
        distance=distance,
    )
    return replace(token, text=_text(token, drawn=bool(scores.drawn[row])))


def _expected(scores: Scores, row: int) -> float:
    """
    Return how many tokens as improbable as this an honest run of this length holds at most; 0 for impossible ones.

    The number of tokens times the mass of all tokens as improbable: a small p alone proves little where nothing is
    truncated.
    """
    if scores.impossible[row] or not scores.drawn[row]:
        return 0.0
    return float(len(scores.tail) * scores.tail[row])


def _nearest(output: RescoredOutput, position: int) -> tuple[str | None, int | None]:
    gaps = [(position - (output.start + mark.position), mark.kind) for mark in output.marks]
    if not gaps:
        return None, None
    distance, kind = min(gaps, key=lambda gap: (abs(gap[0]), gap[0] < 0, gap[1]))
    return kind, distance


def _text(token: LosslessToken, *, drawn: bool) -> str:
    where = ""
    if token.mark is not None and token.distance is not None:
        side = "after" if token.distance >= 0 else "before"
        where = f", {abs(token.distance):,} tokens {side} a {token.mark.replace('_', ' ')}"
    if token.tier:
        why = ": it cannot be drawn"
    elif not drawn:
        why = ": a near-tie, within numeric noise"
    elif token.expected < 0.01:
        why = f": an honest run of this length holds {token.expected:.1g} such tokens at most"
    else:
        why = ": sampling luck explains it"
    return (
        f"{token.key} token {token.position:,}: the reference gives id {token.token_id} p = {_p(token.logprob)} "
        f"(rank {token.rank + 1:,}) where id {token.top_id} has {math.exp(token.top_logprob):.2g}{where}{why}"
    )


def _p(logprob: float) -> str:
    if logprob < -700:
        return "0"
    return f"{math.exp(logprob):.1g}"

"""
The candidate against a plain arm scored by the same reference: what both share cancels, numeric noise above all.

Whole conversations are relabelled, so that nothing is assumed about tokens of one conversation. Seeded.
"""

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from soak.stats.lossless.bars import Bars
from soak.stats.lossless.scores import Scores
from soak.stats.lossless.strata import bins_of

_DRAWS = 9_999
_BLOCK = 512
_SHIFT, _TOKENS, _VARIANCE = range(3)


class Contrast(NamedTuple):
    """The p-value, the least it could be with so few conversations, both mean shifts, and the candidate's tokens."""

    p: float
    p_least: float
    candidate: float
    control: float
    tokens: int


class _Conversations(NamedTuple):
    """
    Sums over the tokens of each conversation: shift, tokens, variance; of all tokens and of each bin of confidence.

    `pairs` (conversations, 2, 3, bins): those both arms ran. `singles` (conversations, 3, bins): those of one arm, the
    candidate's `first`.
    """

    pairs: np.ndarray
    singles: np.ndarray
    first: int


def contrast(
    candidate: Scores, control: Scores, episodes: tuple[Sequence[str], Sequence[str]], bars: Bars, *, seed: int = 0
) -> Contrast | None:
    """
    Return the p-value of "candidate and control shift alike, up to `bars.control_shift`", by relabelling conversations.

    `episodes` names the conversation of each output of the two arms. A conversation both arms ran swaps its sides;
    those of one arm only are dealt out anew. The statistic is the largest of six: all tokens and five bins of
    confidence, each the difference of means beyond the tolerance over its standard error. None if no bin holds 200
    tokens of both arms.
    """
    data = _conversations(_sums(candidate, episodes[0], bars), _sums(control, episodes[1], bars), bars)
    ours = data.pairs[:, 0].sum(axis=0) + data.singles[: data.first].sum(axis=0)
    whole = data.pairs.sum(axis=(0, 1)) + data.singles.sum(axis=0)
    theirs = whole - ours
    counts = np.stack([ours[_TOKENS], theirs[_TOKENS]])
    used = (counts >= bars.control_tokens).all(axis=0) & (whole[_VARIANCE] > 0)
    if not used.any():
        return None
    each = whole[_VARIANCE][used] / whole[_TOKENS][used]
    error = np.sqrt(each * (1 / counts[:, used]).sum(axis=0))
    beyond = float(((_gaps(ours[None], whole, used)[0] - bars.control_shift) / error).max())
    as_far = sum(
        int(((_gaps(drawn, whole, used) / error).max(axis=1) >= beyond - 1e-9).sum())
        for drawn in _relabelled(data, np.random.default_rng(seed))
    )
    return Contrast(
        p=(1 + as_far) / (1 + _DRAWS),
        p_least=max(1 / (1 + _DRAWS), _least(data)),
        candidate=float(ours[_SHIFT, 0] / max(ours[_TOKENS, 0], 1)),
        control=float(theirs[_SHIFT, 0] / max(theirs[_TOKENS, 0], 1)),
        tokens=int(ours[_TOKENS, 0]),
    )


def _sums(scores: Scores, episodes: Sequence[str], bars: Bars) -> dict[str, np.ndarray]:
    """Return the sums of each conversation that has a token taking part, shape (3, 1 + bins)."""
    names = sorted(set(episodes))
    index = {name: number for number, name in enumerate(names)}
    rows = scores.steady & scores.drawn
    owner = np.array([index[name] for name in episodes], dtype=int)[scores.output[rows]]
    bins = len(bars.strata) + 1
    cell = owner * bins + bins_of(scores, bars)[rows]
    columns = (scores.shift[rows], np.ones(int(rows.sum())), scores.variance[rows])
    table = np.stack([np.bincount(cell, column, len(names) * bins) for column in columns])
    table = table.reshape(3, len(names), bins).transpose(1, 0, 2)
    table = np.concatenate([table.sum(axis=2, keepdims=True), table], axis=2)
    return {name: table[number] for name, number in index.items() if table[number, _TOKENS, 0]}


def _conversations(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], bars: Bars) -> _Conversations:
    both = sorted(ours.keys() & theirs.keys())
    alone = [side[name] for side in (ours, theirs) for name in sorted(side.keys() - set(both))]
    shape = (3, len(bars.strata) + 2)
    return _Conversations(
        np.array([[ours[name], theirs[name]] for name in both]).reshape(-1, 2, *shape),
        np.array(alone).reshape(-1, *shape),
        len(ours) - len(both),
    )


def _relabelled(data: _Conversations, random: np.random.Generator) -> list[np.ndarray]:
    """Return the candidate's sums under relabellings, in blocks of shape (draws, 3, bins)."""
    change = data.pairs[:, 1] - data.pairs[:, 0]
    base = data.pairs[:, 0].sum(axis=0)
    blocks = []
    for begin in range(0, _DRAWS, _BLOCK):
        size = min(_BLOCK, _DRAWS - begin)
        swaps = random.integers(0, 2, (size, len(change)), dtype=np.int8).astype(float)
        order = random.random((size, len(data.singles))).argsort(axis=1)
        dealt = (order < data.first).astype(float)
        blocks.append(base + np.tensordot(swaps, change, axes=1) + np.tensordot(dealt, data.singles, axes=1))
    return blocks


def _gaps(ours: np.ndarray, whole: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return the absolute differences of the two arms' means in the used bins: (draws, used bins)."""
    theirs = whole - ours
    first, second = (side[:, _SHIFT] / np.maximum(side[:, _TOKENS], 1.0) for side in (ours, theirs))
    return np.asarray(np.abs(first - second)[:, used])


def _least(data: _Conversations) -> float:
    """Return the share of one labelling and its mirror among all: no p-value can be below."""
    fewer = min(data.first, len(data.singles) - data.first)
    ways = 2.0 ** min(len(data.pairs), 60) * comb(min(len(data.singles), 60), min(fewer, 30))
    return min(1.0, 2 / ways)

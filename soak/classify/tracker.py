"""
The streaming detector: one dictionary look-up per token, memory bounded whatever the length of the answer.

For each token the last eight (of text pieces: six) are looked up, its gram. Two things are kept: the length of the
current exact run (each token equals the one `lag` earlier), and a redundancy CUSUM that gains 1 for a token whose gram
occurred within the last 2048 tokens and loses 5.67 = 0.85/0.15 for a novel one, so that it rises only above 85 %
redundancy. The position where it last left zero is the usual change-point estimate of the onset (Page 1954).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from soak.classify.pieces import Codes
from soak.classify.settings import Settings

# A stretch of text is as telling as eight token ids or six pieces, spaces not counted.
ID_GRAM = 8
PIECE_GRAM = 6
_BITS = 20
TOKEN_MASK = (1 << _BITS) - 1
_HORIZON = 2048
_MAX_LAG = 2048
_GENERATION = 4096
_PENALTY = 0.85 / 0.15
_CAP = 4096.0
_MAX_LOOPS = 16


class Loop(NamedTuple):
    """A loop noticed in the stream: token positions from the start; `lag` is 0 where it has no fixed period."""

    onset: int
    noticed: int
    lag: int


class Tracker:
    """
    Notices loops in one stream of token numbers, by runs of `gram` of them.

    Feed it in any portions; what it notices is the same.
    """

    __slots__ = (
        "_bar_redundant", "_bar_run", "_copies", "_cusum", "_gram", "_key", "_lag", "_new", "_old", "_onset", "_quiet",
        "_recent", "_run", "_trimmed", "loops", "seen",
    )  # fmt: skip

    def __init__(self, settings: Settings, gram: int = ID_GRAM) -> None:
        self._gram = gram
        self._bar_run = settings.certain_run_tokens
        self._bar_redundant = settings.certain_redundant_tokens
        self._copies = settings.certain_copies
        self.loops: list[Loop] = []
        self.seen = 0
        self._recent: list[int] = []
        self._trimmed = 0
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._key = 0
        self._lag = 0
        self._run = 0
        self._cusum = 0.0
        self._onset = 0
        self._quiet = True

    @property
    def evidence(self) -> float:
        """How strong the loop at the end of the stream is, as a multiple of what makes it certain; below 1: none."""
        run = self._run / self._bar_run if self._run >= (self._copies - 1) * self._lag else 0.0
        return max(run, self._cusum / self._bar_redundant)

    def feed(self, tokens: Sequence[int]) -> None:
        """
        Take the next tokens; a loop that became certain in them is appended to `loops`.

        One call holds all its tokens in memory: feed long answers in portions.
        """
        self._trim()
        recent, new, old = self._recent, self._new, self._old
        key, lag, run, cusum, onset = self._key, self._lag, self._run, self._cusum, self._onset
        n, base = self.seen, self._trimmed
        bar_run, bar_cusum, copies = self._bar_run, self._bar_redundant, self._copies - 1
        quiet, gram = self._quiet, self._gram
        mask = (1 << (gram * _BITS)) - 1
        recent += tokens
        seen_at = new.setdefault
        for token in tokens:
            key = (key << _BITS) & mask | token & TOKEN_MASK
            last = seen_at(key, n)
            if last != n:
                new[key] = n
            elif key in old:
                last = old[key]
            else:
                # Never seen, hence no run goes on either: nine of ten tokens of honest text end here.
                n += 1
                run = 0
                if cusum:
                    cusum = cusum - _PENALTY if cusum > _PENALTY else 0.0
                    quiet = quiet or not cusum
                continue
            if run and recent[n - lag - base] == token:
                run += 1
                novel = False
            else:
                novel = n - last > _HORIZON
                lag, run = (0, 0) if n - last > _MAX_LAG else (n - last, gram)
            if novel:
                cusum = cusum - _PENALTY if cusum > _PENALTY else 0.0
                quiet = quiet or not cusum
            else:
                if not cusum:
                    onset = n
                if cusum < _CAP:
                    cusum += 1.0
                if quiet and (cusum >= bar_cusum or (run >= bar_run and run >= copies * lag)):
                    quiet = False
                    self._note(n, lag, run, onset)
            n += 1
        self._key, self._lag, self._run, self._cusum, self._onset = key, lag, run, cusum, onset
        self.seen, self._quiet = n, quiet

    def _note(self, position: int, lag: int, run: int, onset: int) -> None:
        periodic = run >= self._copies * lag > 0
        loop = Loop(
            position + 1 - run - lag if periodic else max(0, onset - self._gram), position + 1, lag if periodic else 0
        )
        if len(self.loops) < _MAX_LOOPS:
            self.loops.append(loop)

    def _trim(self) -> None:
        """Forget what lies further back than any rule looks; when it happens changes nothing that is noticed."""
        if len(self._new) >= _GENERATION:
            self._old, self._new = self._new, {}
        surplus = len(self._recent) - 2 * _MAX_LAG
        if surplus > _GENERATION:
            del self._recent[:surplus]
            self._trimmed += surplus


def may_notice(back: Codes, settings: Settings) -> bool:
    """
    Whether a tracker could notice a loop in tokens whose grams occurred last so far `back`; False is certain.

    Each token of an exact run, and each redundant one, ends a gram seen within the horizon. So the CUSUM, computed
    for all tokens at once and without its cap, passes the lower of the two bars before either is passed.
    """
    steps = np.where((back > 0) & (back <= _HORIZON), 1.0, -_PENALTY)
    total = np.concatenate(([0.0], np.cumsum(steps)))
    bar = min(settings.certain_run_tokens, settings.certain_redundant_tokens) - 3 * ID_GRAM
    return bool((total - np.minimum.accumulate(total)).max() >= bar)

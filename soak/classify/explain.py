"""What the prompt and the recorded answer account for: repetition copied from them is not the server's fault."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from soak.classify.context import Context
from soak.classify.pieces import Pieces, grams
from soak.facts import Message, text_of

_GRAM = 8
_MAX_CHARS = 1_000_000


def reference_text(message: Message | None) -> str:
    """Return all text of a recorded answer: reasoning, content and the arguments of its calls."""
    if message is None:
        return ""
    arguments = (call.arguments for call in message.tool_calls)
    return "\n".join([message.reasoning or "", text_of(message.content), *arguments])


class Explanation:
    """The 8-grams of the prompt and of the recorded answer, counted when first asked for."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def sources(self) -> tuple[Pieces, ...]:
        """The texts an answer may repeat, cut into pieces; empty ones left out."""
        texts = (self._context.prompt_text[-_MAX_CHARS:], reference_text(self._context.reference)[-_MAX_CHARS:])
        return tuple(Pieces(text) for text in texts if text)

    def paid_share(self, repeated: Pieces, start: int, end: int, *, masked: bool) -> float:
        """
        Return the share (0 to 1) of the repeats in pieces [start, end) that one source accounts for.

        An 8-gram that occurs c times there has c - 1 repeats, and a source in which it occurs k times pays for k of
        them: what was copied once is free, what was copied once and then looped is not.
        """
        found, counts = np.unique(grams(repeated.keys(masked=masked)[start:end], _GRAM), return_counts=True)
        repeats = counts - 1
        if not repeats.sum():
            return 0.0
        return max((_paid(found, repeats, source, masked) for source in self.sources), default=0.0)

    def seen_share(self, pieces: Pieces, start: int, end: int) -> float:
        """Return the share (0 to 1) of the 8-grams in pieces [start, end) that one source holds."""
        found = grams(pieces.keys(masked=False)[start:end], _GRAM)
        if not len(found):
            return 0.0
        known = (grams(source.keys(masked=False), _GRAM) for source in self.sources)
        return max((float(np.isin(found, there).mean()) for there in known), default=0.0)


def _paid(found: NDArray[np.uint64], repeats: NDArray[np.int64], source: Pieces, masked: bool) -> float:
    known, counts = np.unique(grams(source.keys(masked=masked), _GRAM), return_counts=True)
    if not len(known):
        return 0.0
    at = np.minimum(np.searchsorted(known, found), len(known) - 1)
    budget = np.where(known[at] == found, counts[at], 0)
    return float(np.minimum(repeats, budget).sum() / repeats.sum())

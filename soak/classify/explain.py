"""What the prompt and the recorded answer account for: repetition copied from them is not the server's fault."""

import re
from functools import cached_property

import numpy as np

from soak.classify.context import Context
from soak.classify.pieces import Pieces, grams
from soak.facts import Message, text_of

_GRAM = 8
_MAX_CHARS = 1_000_000
_MAX_SAMPLES = 64
_MIN_SAMPLES = 4
_NUMBER = re.compile(r"\d{1,16}")
# Characters of a source that one question may search through: what keeps a look at a deep prompt to milliseconds.
SCAN_CHARS = 16_000_000
LIVE_SCAN_CHARS = 2_000_000


def reference_text(message: Message | None) -> str:
    """Return all text of a recorded answer: reasoning, content and the arguments of its calls."""
    if message is None:
        return ""
    arguments = (call.arguments for call in message.tool_calls)
    return "\n".join([message.reasoning or "", text_of(message.content), *arguments])


class Explanation:
    """
    Looks for what an answer repeats in the prompt and in the recorded answer.

    Neither is indexed, since a prompt of a million characters takes a quarter of a second to cut into pieces: at most
    64 8-grams of the answer, evenly spread, are searched for in the plain text (0.3 ms each in a million characters).
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The texts an answer may repeat, their last million characters; empty ones left out."""
        texts = (self._context.prompt_text[-_MAX_CHARS:], reference_text(self._context.reference)[-_MAX_CHARS:])
        return tuple(text for text in texts if text)

    @cached_property
    def _masked_sources(self) -> tuple[str, ...]:
        return tuple(_NUMBER.sub("0", text) for text in self.sources)

    def paid_share(
        self, repeated: Pieces, start: int, end: int, *, masked: bool, scan_chars: int = SCAN_CHARS
    ) -> float:
        """
        Return the share (0 to 1) of the repeats in pieces [start, end) that one source accounts for.

        An 8-gram that occurs c times there has c - 1 repeats, and a source in which it occurs k times pays for k of
        them: what was copied once is free, what was copied once and then looped is not.
        """
        codes = (repeated.masked if masked else repeated.codes)[start:end]
        _, first, counts = np.unique(grams(codes, _GRAM), return_index=True, return_counts=True)
        again = np.flatnonzero(counts > 1)
        if not len(again):
            return 0.0
        sources = self._masked_sources if masked else self.sources
        again = again[np.argsort(first[again])]
        best = 0.0
        for source in sources:
            chosen = again[_spread(len(again), source, scan_chars)]
            repeats = (counts[chosen] - 1).tolist()
            texts = (repeated.slice(start + at, start + at + _GRAM) for at in first[chosen].tolist())
            paid = sum(
                _occurrences(_NUMBER.sub("0", text) if masked else text, source, most)
                for text, most in zip(texts, repeats, strict=True)
            )
            best = max(best, paid / sum(repeats))
        return best

    def seen_share(self, pieces: Pieces, start: int, end: int) -> float:
        """Return the share (0 to 1) of the 8-grams in pieces [start, end) that one source holds."""
        count = end - start - _GRAM + 1
        if count <= 0:
            return 0.0
        best = 0.0
        for source in self.sources:
            chosen = [start + at for at in _spread(count, source, SCAN_CHARS)]
            best = max(best, sum(pieces.slice(at, at + _GRAM) in source for at in chosen) / len(chosen))
        return best


def _spread(count: int, source: str, scan_chars: int) -> list[int]:
    """Return evenly spread numbers below `count`, as many as a search through `source` may cost."""
    samples = min(count, _MAX_SAMPLES, max(_MIN_SAMPLES, scan_chars // len(source)))
    return [(2 * k + 1) * count // (2 * samples) for k in range(samples)]


def _occurrences(text: str, source: str, most: int) -> int:
    """Return how often `text` occurs in `source`, overlapping ones too, but not more than `most`."""
    found, at = 0, source.find(text)
    while at >= 0 and found < most:
        found += 1
        at = source.find(text, at + 1) if found < most else -1
    return found

"""What the token ids of an answer add to its text: positions in tokens, and loops that the text does not show."""

import msgspec
import numpy as np

from soak.classify.loops import Region, drifts, near, periodic, redundant
from soak.classify.pieces import Codes, distances
from soak.classify.settings import Settings
from soak.classify.stream import Stream
from soak.facts import Finding
from soak.facts.finding import Where

_EXACT_KINDS = ("exact_loop", "char_flood")
_WITHOUT_POSITION = ("blank_flood", "salad")
_EXCERPT_CHARS = 200


class TokenView:
    """The loops in the token ids of an answer, computed when first asked for; without ids it adds nothing."""

    def __init__(self, ids: tuple[int, ...] | None, settings: Settings) -> None:
        self._codes: Codes | None = None if ids is None else np.array([i & 0xFFFFFFFF for i in ids], dtype=np.int64)
        self._settings = settings
        self._found: list[Region] | None = None

    def locate(self, finding: Finding, stream: Stream) -> Finding:
        """Return the finding with its onset and period in tokens, and the token at which the stream noticed it."""
        loops = stream.noticed(finding.where)
        finding = msgspec.structs.replace(finding, detected_at=loops[-1].noticed if loops else None)
        if self._codes is None or finding.onset_token is not None or finding.kind in _WITHOUT_POSITION:
            return finding
        wanted = "exact" if finding.kind in _EXACT_KINDS else "near" if finding.period_tokens else "redundant"
        regions = [region for region in self._regions() if region.shape == wanted] or self._regions()
        if not regions:
            return msgspec.structs.replace(finding, period_tokens=None)
        return msgspec.structs.replace(finding, onset_token=regions[0].start, period_tokens=regions[0].period or None)

    def without_text(self, chars: int) -> list[Finding]:
        """Return a loop of tokens that leave no text (special tokens); `chars` is all text that the answer has."""
        codes, least = self._codes, self._settings.near_tokens
        if codes is None or len(codes) < least or 2 * chars > len(codes):
            return []
        for region in self._regions()[:1]:
            if region.shape == "exact" and region.length >= least and region.end >= len(codes) - 2:
                text = (
                    f"{region.length} tokens without text from token {region.start}: the same {region.period} repeated"
                )
                return [_finding("token_loop", "content", region, len(codes), 0.95, text)]
        return []

    def drifting(self, where: Where, text: str) -> list[Finding]:
        """Return a loop at the end in which single tokens are exchanged here and there; `text` is that of `where`."""
        codes, s = self._codes, self._settings
        if codes is None or len(codes) < 2 * s.near_tokens:
            return []
        for region in near(codes, distances(codes, 8), s.near_match)[:1]:
            late = region.end >= len(codes) - s.recovered_min_tokens
            if late and region.length >= s.near_tokens and region.copies >= s.open_copies and drifts(codes, region):
                sentence = (
                    f"{region.copies:.0f} times nearly the same {region.period} tokens from token {region.start} on"
                )
                at = len(text) - min(len(text), len(text) * region.length // len(codes))
                found = _finding("near_loop", where, region, len(codes), 0.8, sentence)
                return [msgspec.structs.replace(found, onset_char=at, unit=text[at : at + _EXCERPT_CHARS])]
        return []

    def _regions(self) -> list[Region]:
        """Return the exact, near and redundant stretches of the ids, the exact ones first."""
        if self._found is None:
            codes = self._codes
            self._found = [] if codes is None else _regions(codes)
        return self._found


def noticed_only(stream: Stream) -> list[Finding]:
    """Return what the stream noticed and the final reading did not: a loop once certain is never unsaid."""
    for channel, tracker in stream.trackers():
        for loop in tracker.loops[:1]:
            where: Where = "reasoning" if channel == "reasoning" else "content"
            text = f"repetition noticed at token {loop.noticed}; it ended, or it is data"
            found = Finding(kind="repetition_noticed", where=where if isinstance(channel, str) else "tool_arguments")
            return [
                msgspec.structs.replace(
                    found,
                    onset_token=loop.onset if stream.on_ids else None,
                    period_tokens=loop.lag or None,
                    detected_at=loop.noticed,
                    confidence=0.4,
                    text=text,
                )
            ]
    return []


def _regions(codes: Codes) -> list[Region]:
    back = distances(codes, 8)
    return [*periodic(codes, "exact", back), *near(codes, back, 0.7), *redundant(codes, back, 0.85)]


def _finding(kind: str, where: Where, region: Region, total: int, confidence: float, text: str) -> Finding:
    return Finding(
        kind=kind,
        where=where,
        onset_token=region.start,
        period_tokens=region.period,
        copies=round(region.copies, 2),
        covered=round(region.length / total, 4),
        confidence=confidence,
        text=text,
    )

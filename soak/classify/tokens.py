"""What the token ids of an answer add to its text: positions in tokens, and loops that the text does not show."""

from functools import cached_property

import msgspec

from soak.classify.loops import Region, candidate_lags, drifts, near, periodic, redundant
from soak.classify.pieces import Codes, Cuts
from soak.classify.rarity import rare_from
from soak.classify.settings import Settings
from soak.classify.stream import Stream, where_of
from soak.facts import Finding
from soak.facts.finding import Where

_EXACT_KINDS = ("exact_loop", "char_flood")
_WITHOUT_POSITION = ("blank_flood", "salad")
_EXCERPT_CHARS = 200


class TokenView:
    """The loops in the token ids of an answer, computed when first asked for; without ids it adds nothing."""

    def __init__(self, cuts: Cuts, settings: Settings) -> None:
        self._cuts = cuts
        self._codes = cuts.ids
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
        onset = self._cuts.first + regions[0].start
        return msgspec.structs.replace(finding, onset_token=onset, period_tokens=regions[0].period or None)

    def without_text(self, chars: int) -> list[Finding]:
        """Return a loop of tokens that leave no text (special tokens); `chars` is all text that the answer has."""
        codes, least = self._codes, self._settings.near_tokens
        if codes is None or len(codes) < least or 2 * chars > len(codes):
            return []
        for region in self._regions()[:1]:
            if region.shape == "exact" and region.length >= least and region.end >= len(codes) - 2:
                text = (
                    f"{region.length} tokens without text from token {self._cuts.first + region.start}:"
                    f" the same {region.period} repeated"
                )
                return [self._finding("token_loop", "content", region, 0.95, text)]
        return []

    def drifting(self, where: Where, text: str) -> list[Finding]:
        """Return a loop at the end in which single tokens are exchanged here and there; `text` is that of `where`."""
        codes, s = self._codes, self._settings
        if codes is None or len(codes) < 2 * s.near_tokens:
            return []
        for region in near(codes, candidate_lags(self._cuts.ids_back), s.near_match)[:1]:
            late = region.end >= len(codes) - s.recovered_min_tokens
            if late and region.length >= s.near_tokens and region.copies >= s.open_copies and drifts(codes, region):
                sentence = (
                    f"{region.copies:.0f} times nearly the same {region.period} tokens"
                    f" from token {self._cuts.first + region.start} on"
                )
                at = len(text) - min(len(text), len(text) * region.length // len(codes))
                found = self._finding("near_loop", where, region, 0.8, sentence)
                return [msgspec.structs.replace(found, onset_char=at, unit=text[at : at + _EXCERPT_CHARS])]
        return []

    def rare_share(self) -> float:
        """Return which share of the answer, up to its end, is salad of rare tokens: 0 if none is."""
        start = self._rare_from
        return 0.0 if self._codes is None or start is None else 1 - start / len(self._codes)

    def rare(self, where: Where, text: str, at: int) -> Finding:
        """Return the finding for that salad, which begins about at character `at` of `text`."""
        onset = self._cuts.first + (self._rare_from or 0)
        return Finding(
            kind="salad",
            where=where,
            onset_char=at,
            onset_token=onset,
            covered=round(1 - at / max(1, len(text)), 4),
            unit=text[at : at + _EXCERPT_CHARS],
            confidence=0.8,
            text=f"rare tokens, none of them twice, from token {onset} on",
        )

    @cached_property
    def _rare_from(self) -> int | None:
        return None if self._codes is None else rare_from(self._codes, self._settings)

    def _regions(self) -> list[Region]:
        """Return the exact, near and redundant stretches of the ids, the exact ones first."""
        if self._found is None:
            codes, back = self._codes, self._cuts.ids_back
            self._found = [] if codes is None else _regions(codes, back)
        return self._found

    def _finding(self, kind: str, where: Where, region: Region, confidence: float, text: str) -> Finding:
        return Finding(
            kind=kind,
            where=where,
            onset_token=self._cuts.first + region.start,
            period_tokens=region.period,
            copies=round(region.copies, 2),
            covered=round(region.length / max(1, len(self._cuts.ids_back) + 7), 4),
            confidence=confidence,
            text=text,
        )


def noticed_only(stream: Stream) -> list[Finding]:
    """Return what the stream noticed and the final reading did not: a loop once certain is never unsaid."""
    for channel, tracker in stream.trackers():
        for loop in tracker.loops[:1]:
            text = f"repetition noticed at token {loop.noticed}; it ended, or it is data"
            found = Finding(kind="repetition_noticed", where=where_of(channel))
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


def _regions(codes: Codes, back: Codes) -> list[Region]:
    lags = candidate_lags(back)
    return [*periodic(codes, "exact", lags), *near(codes, lags, 0.7), *redundant(codes, back, 0.85)]

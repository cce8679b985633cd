"""From repetition to findings: which loops reach the end, which ended before it, which are explained."""

from typing import NamedTuple

import numpy as np

from soak.classify.endings import ended_by_itself
from soak.classify.explain import Explanation
from soak.classify.floods import find_flood
from soak.classify.loops import Region, near, periodic, redundant
from soak.classify.pieces import Pieces, distances
from soak.classify.repeats import Channel, Repeat, find_repeats, runs_away
from soak.classify.salad import find_salad
from soak.classify.settings import Settings
from soak.classify.stream import Stream
from soak.facts import Finding, Observation
from soak.facts.finding import Where

_EXCERPT_CHARS = 200
_NAMES = {
    "exact_loop": "the same text",
    "counter_loop": "the same text with other numbers",
    "near_loop": "nearly the same text",
    "pool_loop": "the same few sentences in changing order",
    "redundant_loop": "hardly anything that was not said just before",
}
_CONFIDENCE = {
    "exact_loop": 0.98,
    "counter_loop": 0.85,
    "near_loop": 0.8,
    "pool_loop": 0.85,
    "redundant_loop": 0.8,
}
_SALAD = {
    "script_mix": "letters of several scripts side by side",
    "broken_characters": "replacement characters and misread bytes",
    "word_order": "words in an order that no sentence has",
    "no_order": "words and signs in no order",
}


class LoopReport(NamedTuple):
    """`garbage`: findings that make the answer garbage; `notes`: repetition that ended or is explained."""

    garbage: list[Finding]
    notes: list[Finding]


def channels_of(observation: Observation) -> list[Channel]:
    """Return the texts of an answer in the order in which they were generated, empty ones left out."""
    arguments = "\n".join(call.arguments for call in observation.tool_calls)
    texts: list[tuple[Where, str]] = [("reasoning", observation.reasoning), ("content", observation.content)]
    texts = [(where, text) for where, text in [*texts, ("tool_arguments", arguments)] if text]
    open_end = not ended_by_itself(observation)
    channels = []
    for at, (where, text) in enumerate(texts):
        rest = sum(len(later.split()) for _, later in texts[at + 1 :])
        called = where == "reasoning" and bool(observation.tool_calls)
        last = at == len(texts) - 1
        channels.append(Channel(where, text, open_end and last, 1_000_000 if called and not open_end else rest))
    return channels


def report_loops(observation: Observation, stream: Stream, explanation: Explanation, settings: Settings) -> LoopReport:
    """Return what repeats in an answer, or is salad, in each of its texts."""
    report = LoopReport([], [])
    for channel in channels_of(observation):
        part = _report_channel(channel, explanation, settings)
        report.garbage.extend(part.garbage)
        report.notes.extend(part.notes)
    tokens = _TokenView(observation.token_ids)
    garbage = [_in_tokens(finding, tokens, stream) for finding in report.garbage]
    notes = [_in_tokens(finding, tokens, stream) for finding in report.notes]
    if not garbage:
        garbage = _unseen_tokens(observation, tokens, settings)
    if not garbage and not notes:
        notes = _noticed_only(stream)
    return LoopReport(garbage, notes)


def _report_channel(channel: Channel, explanation: Explanation, settings: Settings) -> LoopReport:
    limit = int(settings.max_chars)
    offset = max(0, len(channel.text) - limit)
    channel = channel._replace(text=channel.text[offset:])
    flood = find_flood(channel.text, settings)
    if flood is not None:
        size = flood.end - flood.start
        text = f"{size} times {flood.unit!r} in a row, up to the end"
        finding = Finding(
            kind=flood.kind, where=channel.where, onset_char=offset + flood.start, period_tokens=1, copies=float(size),
            covered=size / len(channel.text), unit=flood.unit, confidence=0.97, text=text,
        )  # fmt: skip
        return LoopReport([finding], [])
    pieces = Pieces(channel.text)
    report = _judge_repeats(channel, pieces, offset, explanation, settings)
    if not report.garbage and not report.notes:
        report.garbage.extend(_salad(channel, pieces, offset, explanation, settings))
    return report


def _judge_repeats(
    channel: Channel, pieces: Pieces, offset: int, explanation: Explanation, settings: Settings
) -> LoopReport:
    notes: list[Finding] = []
    for repeat in find_repeats(pieces, settings):
        if not runs_away(repeat, channel, pieces, settings):
            continue
        if (
            explanation.paid_share(
                pieces, repeat.first, repeat.last, masked=repeat.kind in ("counter_loop", "near_loop")
            )
            >= settings.explained_share
        ):
            notes.append(_finding("explained_repetition", repeat, channel, offset))
        elif _moved_on(repeat, channel, settings):
            notes.append(_finding("loop_recovered", repeat, channel, offset))
        else:
            return LoopReport([_finding(repeat.kind, repeat, channel, offset)], [])
    return LoopReport([], notes[:1])


def _moved_on(repeat: Repeat, channel: Channel, settings: Settings) -> bool:
    """Whether enough other text follows the loop: a closing bracket or a last line is not work."""
    after = sum(any(char.isalnum() for char in word) for word in channel.text[repeat.end : repeat.end + 20_000].split())
    need = min(
        settings.recovered_max_tokens, max(settings.recovered_min_tokens, settings.recovered_share * repeat.tokens)
    )
    return after + channel.follows >= need


def _finding(kind: str, repeat: Repeat, channel: Channel, offset: int) -> Finding:
    copies = f"{repeat.copies:.0f} times " if repeat.copies else ""
    what = _NAMES[repeat.kind]
    where = {"content": "the content", "reasoning": "the reasoning", "tool_arguments": "the tool arguments"}[
        channel.where
    ]
    text = f"{copies}{what} from character {offset + repeat.start} to {offset + repeat.end} of {where}"
    ends = {"loop_recovered": ", then other work", "explained_repetition": ", as in the prompt or the recorded answer"}
    return Finding(
        kind=kind,
        where=channel.where,
        onset_char=offset + repeat.start,
        period_tokens=repeat.period,
        copies=round(repeat.copies, 2) if repeat.copies else None,
        covered=round(min(1.0, repeat.share), 4),
        unit=repeat.unit[:_EXCERPT_CHARS],
        confidence=_CONFIDENCE[repeat.kind] if kind == repeat.kind else 0.5,
        text=text + ends.get(kind, ""),
    )


def _salad(
    channel: Channel, pieces: Pieces, offset: int, explanation: Explanation, settings: Settings
) -> list[Finding]:
    salad = find_salad(channel.text, settings)
    if salad is None:
        return []
    first, last = pieces.starts.searchsorted([salad.start, salad.end])
    if explanation.seen_share(pieces, int(first), int(last)) >= settings.explained_share:
        return []
    return [
        Finding(
            kind="salad",
            where=channel.where,
            onset_char=offset + salad.start,
            covered=round((salad.end - salad.start) / len(channel.text), 4),
            unit=channel.text[salad.start : salad.start + _EXCERPT_CHARS],
            confidence=0.9,
            text=f"{_SALAD[salad.kind]} from character {offset + salad.start} on",
        )
    ]


class _TokenView:
    """The loops of the token ids, computed when first needed."""

    def __init__(self, ids: tuple[int, ...] | None) -> None:
        self.codes = None if ids is None else np.array([token & 0xFFFFFFFF for token in ids], dtype=np.int64)
        self._regions: list[Region] | None = None

    def regions(self) -> list[Region]:
        """Return the exact, near and redundant stretches of the ids, the exact ones first."""
        if self._regions is None:
            self._regions = [] if self.codes is None else _token_regions(self.codes)
        return self._regions


def _token_regions(codes: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[Region]:
    back = distances(codes, 8)
    return [*periodic(codes, "exact", back), *near(codes, back, 0.7), *redundant(codes, back, 0.85)]


def _in_tokens(finding: Finding, tokens: _TokenView, stream: Stream) -> Finding:
    """Put token positions into a finding, where the server gave ids; and when the stream noticed it."""
    import msgspec

    loops = stream.noticed("content" if finding.where == "tool_arguments" else finding.where)
    noticed = loops[-1].noticed if loops else None
    if tokens.codes is None or finding.kind in ("blank_flood", "salad"):
        return msgspec.structs.replace(finding, detected_at=noticed)
    wanted = (
        "exact" if finding.kind in ("exact_loop", "char_flood") else "near" if finding.period_tokens else "redundant"
    )
    regions = [region for region in tokens.regions() if region.shape == wanted] or tokens.regions()
    if not regions:
        return msgspec.structs.replace(finding, detected_at=noticed, period_tokens=None)
    region = regions[0]
    return msgspec.structs.replace(
        finding, onset_token=region.start, period_tokens=region.period or None, detected_at=noticed
    )


def _unseen_tokens(observation: Observation, tokens: _TokenView, settings: Settings) -> list[Finding]:
    """Return a loop of tokens that leave no text (special tokens): only the ids show it."""
    ids = observation.token_ids
    chars = (
        len(observation.content) + len(observation.reasoning) + sum(len(c.arguments) for c in observation.tool_calls)
    )
    if ids is None or len(ids) < settings.near_tokens or chars > len(ids) / 2:
        return []
    for region in tokens.regions()[:1]:
        if region.shape == "exact" and region.length >= settings.near_tokens and region.end >= len(ids) - 2:
            text = f"{region.length} tokens without text from token {region.start}: the same {region.period} repeated"
            return [
                Finding(
                    kind="token_loop", onset_token=region.start, period_tokens=region.period, copies=region.copies,
                    covered=region.length / len(ids), confidence=0.95, text=text,
                )
            ]  # fmt: skip
    return []


def _noticed_only(stream: Stream) -> list[Finding]:
    """Return what the stream noticed and the final reading did not: a loop once certain is never unsaid."""
    for channel, tracker in stream.trackers():
        for loop in tracker.loops[:1]:
            where: Where = channel if channel in ("content", "reasoning") else "tool_arguments"  # type: ignore[assignment]
            text = f"repetition noticed at token {loop.noticed}; it ended, or it is data"
            return [
                Finding(
                    kind="loop_recovered", where=where, onset_token=loop.onset if stream.on_ids else None,
                    period_tokens=loop.lag or None, detected_at=loop.noticed, confidence=0.4, text=text,
                )
            ]  # fmt: skip
    return []

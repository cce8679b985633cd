"""From repetition to findings: which loops reach the end, which ended before it, which are explained."""

from typing import NamedTuple

from soak.classify.endings import ended_by_itself
from soak.classify.explain import Explanation
from soak.classify.floods import find_flood
from soak.classify.pieces import Cuts, Pieces
from soak.classify.repeats import Channel, Repeat, find_repeats, repeats_before, runs_away
from soak.classify.salad import find_salad
from soak.classify.settings import Settings
from soak.classify.stream import Stream
from soak.classify.texture import texture
from soak.classify.tokens import TokenView, noticed_only
from soak.facts import Finding, Observation
from soak.facts.finding import Where

_EXCERPT_CHARS = 200
_FOLLOWING_CHARS = 20_000
_MAX_FOREIGN = 0.02
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
    "fragments": "a few fragments strung together at random",
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
        rest = sum(len(later[:_FOLLOWING_CHARS].split()) for _, later in texts[at + 1 :])
        called = where == "reasoning" and bool(observation.tool_calls)
        last = at == len(texts) - 1
        channels.append(Channel(where, text, open_end and last, 1_000_000 if called and not open_end else rest))
    return channels


def report_loops(
    observation: Observation, cuts: Cuts, stream: Stream, explanation: Explanation, settings: Settings
) -> LoopReport:
    """Return what repeats in an answer, or is salad, in each of its texts; token ids add what text cannot show."""
    channels = channels_of(observation)
    garbage: list[Finding] = []
    notes: list[Finding] = []
    for channel in channels:
        report = _report_channel(channel, cuts, explanation, settings)
        garbage += report.garbage
        notes += report.notes
    tokens = TokenView(cuts, settings)
    if not garbage:
        garbage = _seen_in_tokens(channels, notes, tokens, explanation, settings)
    garbage = [tokens.locate(finding, stream) for finding in garbage]
    notes = [tokens.locate(finding, stream) for finding in notes]
    return LoopReport(garbage, notes or ([] if garbage else noticed_only(stream)))


def _seen_in_tokens(
    channels: list[Channel], notes: list[Finding], tokens: TokenView, explanation: Explanation, settings: Settings
) -> list[Finding]:
    """Return what only the ids show: a loop of tokens without text or with single ones exchanged; rare tokens."""
    unseen = tokens.without_text(sum(len(channel.text) for channel in channels))
    if unseen or not channels:
        return unseen
    rare = _rare_tokens(channels, tokens, explanation, settings)
    if rare or notes or not channels[-1].open_end:
        return rare
    last = channels[-1]
    tail = Pieces(last.text[-4 * _EXCERPT_CHARS :])
    if texture(tail.text).kind not in ("prose", "code"):
        return []
    if explanation.seen_share(tail, 0, len(tail)) >= settings.explained_share:
        return []
    return tokens.drifting(last.where, last.text)


def _rare_tokens(
    channels: list[Channel], tokens: TokenView, explanation: Explanation, settings: Settings
) -> list[Finding]:
    """Return salad of rare tokens at the end; only in ASCII, since to some tokenizers whole scripts are rare."""
    share = tokens.rare_share()
    if not share:
        return []
    text = channels[-1].text
    at = max(0, len(text) - round(share * sum(len(channel.text) for channel in channels)))
    tail = Pieces(text[max(at, len(text) - _FOLLOWING_CHARS) :])
    if sum(char > "\x7f" for char in tail.text) > _MAX_FOREIGN * len(tail.text):
        return []
    if explanation.seen_share(tail, 0, len(tail)) >= settings.explained_share:
        return []
    return [tokens.rare(channels[-1].where, text, at)]


def _report_channel(channel: Channel, cuts: Cuts, explanation: Explanation, settings: Settings) -> LoopReport:
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
    pieces = cuts.of(channel.text)
    report = _judge_repeats(channel, pieces, offset, explanation, settings)
    if not report.garbage:
        report.garbage.extend(_salad(channel, pieces, offset, explanation, settings))
    return report


def _judge_repeats(
    channel: Channel, pieces: Pieces, offset: int, explanation: Explanation, settings: Settings
) -> LoopReport:
    notes: list[Finding] = []
    garbage: list[Repeat] = []
    for repeat in find_repeats(pieces, settings):
        if not runs_away(repeat, channel, pieces, settings):
            continue
        masked = repeat.kind in ("counter_loop", "near_loop")
        paid = explanation.paid_share(pieces, repeat.first, repeat.last, masked=masked)
        if paid >= settings.explained_share:
            notes.append(_finding("explained_repetition", repeat, channel, offset))
        elif _moved_on(repeat, channel, settings):
            notes.append(_finding("loop_recovered", repeat, channel, offset))
        else:
            garbage.append(repeat)
    if not garbage:
        return LoopReport([], notes[:1])
    # The surest kind comes first, unless it saw only the last part of what another shows to be one long loop.
    widest = max(garbage, key=lambda repeat: repeat.tokens)
    wider = widest.tokens > 2 * garbage[0].tokens and repeats_before(widest, garbage[0].first, pieces, settings)
    chosen = widest if wider else garbage[0]
    return LoopReport([_finding(chosen.kind, chosen, channel, offset)], [])


def _moved_on(repeat: Repeat, channel: Channel, settings: Settings) -> bool:
    """Whether enough other text follows the loop: a closing bracket or a last line is not work."""
    following = channel.text[repeat.end : repeat.end + _FOLLOWING_CHARS].split()
    after = sum(any(char.isalnum() for char in word) for word in following)
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

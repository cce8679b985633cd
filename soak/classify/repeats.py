"""Repetition in one channel of an answer, and whether it is a loop: the rule book of `garbage_loop`."""

import re
from typing import NamedTuple

import numpy as np

from soak.classify.loops import (
    Region,
    candidate_lags,
    drifts,
    near,
    periodic,
    redundant,
    steady_counters,
)
from soak.classify.pieces import Pieces, grams
from soak.classify.sentences import find_pools
from soak.classify.settings import Settings
from soak.classify.texture import Texture, texture
from soak.facts.finding import Where

MARKER = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?(?:tool_call|tool_calls|function_calls?|function|parameter|invoke|think|im_start|im_end|s)"
    r"(?:[=\s][^<>\n]{0,60})?>|\[/?(?:TOOL_CALLS|INST)\]|<[\uff5c][^<>\n]{1,40}[\uff5c]>"
)
_FENCE = re.compile(r"^[ \t]{0,12}(`{3,}|~{3,})", re.MULTILINE)
_EXCERPT_CHARS = 200
_SAMPLE_CHARS = 2000
_MIN_PIECES = 16
_GRAM = 8
_BLOCK_DISTINCT = 16
_MIN_RECORDS = 12
_RECORDS = 0.8
_APERIODIC = ("pool_loop", "redundant_loop")


class Channel(NamedTuple):
    """One text of the answer. `open_end`: nothing ended it but a limit; `follows`: tokens of the answer after it."""

    where: Where
    text: str
    open_end: bool
    follows: int = 0


class Repeat(NamedTuple):
    """
    Repetition found in a channel: characters [start, end), pieces [first, last) and what it is made of.

    `tokens` is its size in pieces or in quarters of its characters, whichever is more; `share` of the channel's.
    """

    kind: str
    start: int
    end: int
    first: int
    last: int
    period: int | None
    copies: float | None
    unit: str
    texture: Texture
    tokens: int
    share: float
    region: Region | None = None

    @property
    def data(self) -> bool:
        """Whether it is numbers, symbols, or one word a row: what may be long and regular by nature."""
        kind = self.texture.kind
        return kind in ("numbers", "symbols", "blank") or (kind == "words" and self.texture.rows)

    def block(self, settings: Settings) -> bool:
        """Whether its unit is a whole passage."""
        return (self.period or 0) >= settings.block_tokens


def find_repeats(pieces: Pieces, settings: Settings) -> list[Repeat]:
    """Return the repetition found in a text, the surest kinds first; of each kind what reaches the end comes first."""
    if len(pieces) < _MIN_PIECES:
        return []
    lags = candidate_lags(pieces.back(8))
    found = [_from_region(pieces, "exact_loop", region) for region in periodic(pieces.codes, "exact", lags)]
    masked = periodic(pieces.masked, "masked", candidate_lags(pieces.back(8, masked=True)))
    found += [_from_region(pieces, "counter_loop", region) for region in masked]
    found += _pools(pieces, settings)
    if len(pieces) < settings.near_tokens:
        return found
    found += [_from_region(pieces, "near_loop", region) for region in near(pieces.codes, lags, settings.near_match)]
    found += _redundant(pieces, settings)
    return found


def _pools(pieces: Pieces, settings: Settings) -> list[Repeat]:
    found = []
    for pool in find_pools(pieces.text, settings.pool_redundancy):
        if pool.total >= settings.pool_sentences and pool.total >= settings.pool_copies * pool.distinct:
            first, last = pieces.starts.searchsorted([pool.start, pool.end])
            copies = pool.total / pool.distinct
            found.append(_repeat(pieces, "pool_loop", int(first), int(last), pool.unit, None, copies, None))
    return found


def _redundant(pieces: Pieces, settings: Settings) -> list[Repeat]:
    """Look at 8-grams, and at 4-grams for what varies from copy to copy; forms of code repeat them up to 9 times."""
    least = settings.redundant_copies
    wide = redundant(pieces.codes, pieces.back(8), settings.redundant_share)
    found = [_from_region(pieces, "redundant_loop", region) for region in wide if region.match >= least]
    narrow = redundant(pieces.codes, pieces.back(4), settings.redundant_share, 4)
    kept = [_from_region(pieces, "redundant_loop", region) for region in narrow if region.match >= least]
    return found + [repeat for repeat in kept if repeat.texture.kind == "prose" or (repeat.copies or 0.0) >= 3 * least]


def _from_region(pieces: Pieces, kind: str, region: Region) -> Repeat:
    unit = pieces.slice(region.end - (region.period or 24), region.end)
    copies = region.copies or region.match
    root = primitive(unit)
    if region.period:
        unit = pieces.slice(region.start, region.start + region.period)
        if len(root) < len(unit):
            copies, unit = copies * (len(unit) / len(root)), root
    return _repeat(pieces, kind, region.start, region.end, unit, region.period or None, copies or None, region)


def _repeat(
    pieces: Pieces,
    kind: str,
    first: int,
    last: int,
    unit: str,
    period: int | None,
    copies: float | None,
    region: Region | None,
) -> Repeat:
    start, end = int(pieces.starts[first]), int(pieces.starts[last])
    made_of = texture(unit if period and period >= 3 else pieces.text[max(start, end - _SAMPLE_CHARS) : end])
    tokens = max(last - first, (end - start) // 4)
    share = (end - start) / max(1, len(pieces.text))
    return Repeat(kind, start, end, first, last, period, copies, unit[:_EXCERPT_CHARS], made_of, tokens, share, region)


def primitive(unit: str) -> str:
    """Return the shortest text of which `unit` is a whole number of copies."""
    if len(unit) < 2 or len(unit) > 4096:
        return unit
    return unit[: (unit + unit).find(unit, 1)]


def runs_away(repeat: Repeat, channel: Channel, pieces: Pieces, settings: Settings) -> bool:
    """Whether a repetition that reaches the end of the channel and is not explained makes the answer garbage."""
    if repeat.copies and repeat.copies >= settings.marker_copies and MARKER.search(repeat.unit):
        return True
    if channel.open_end and _open_end(repeat, pieces, settings):
        return True
    if repeat.tokens < settings.closed_run_tokens:
        return False
    quoted = channel.where == "content" and in_closed_fence(channel.text, repeat.end)
    return _closed_end(repeat, quoted, pieces, settings)


def repeats_before(repeat: Repeat, end: int, pieces: Pieces, settings: Settings) -> bool:
    """
    Whether a repetition without a period is one before piece `end` too.

    Honest rows that come right before an exact loop, twice each, are no part of it.
    """
    before = grams(pieces.codes[repeat.first : end], _GRAM)
    once = repeat.kind not in _APERIODIC or not len(before)
    return once or len(before) >= settings.redundant_copies * len(np.unique(before))


def _open_end(repeat: Repeat, pieces: Pieces, s: Settings) -> bool:
    """The answer was cut off: four copies of a sentence at the very end are a loop, rows of data only if they rule."""
    need = max(s.open_run_tokens, min(s.open_run_cap_tokens, s.open_share * len(pieces)))
    if repeat.tokens < need:
        return False
    if repeat.kind in _APERIODIC:
        code_copies = 2 * s.redundant_copies if repeat.kind == "pool_loop" else s.redundant_copies
        return _says_nothing_new(repeat, pieces.text, code_copies, s)
    copies = repeat.copies or 0.0
    if repeat.kind == "exact_loop":
        if repeat.data:
            return repeat.share >= s.open_data_share and copies >= s.open_data_copies
        return copies >= s.open_copies or (copies >= 3 and repeat.block(s))
    if repeat.data:
        return False
    if repeat.kind == "near_loop":
        return copies >= s.open_copies and _drifts(repeat, pieces)
    return _stuck_counter(repeat, pieces, s.open_copies * 2, s.counter_copies)


def _closed_end(repeat: Repeat, quoted: bool, pieces: Pieces, s: Settings) -> bool:
    """The answer ended by itself: only many copies of language, or of whole blocks, are a loop; data never is."""
    copies, kind = repeat.copies or 0.0, repeat.texture.kind
    if repeat.kind == "exact_loop":
        return _repeats_exactly(repeat, quoted, pieces, s)
    if quoted:
        return False
    if repeat.kind in _APERIODIC:
        if kind == "code" and copies < s.closed_row_copies and _one_row(pieces.text[repeat.start : repeat.end]):
            return False
        return _says_nothing_new(repeat, pieces.text, 3 * s.redundant_copies, s)
    if repeat.kind == "near_loop":
        return kind == "prose" and copies >= 2 * s.closed_copies and _drifts(repeat, pieces)
    return kind == "prose" and _stuck_counter(repeat, pieces, 1.5 * s.closed_copies, 1e9)


def _repeats_exactly(repeat: Repeat, quoted: bool, pieces: Pieces, s: Settings) -> bool:
    """Copies of a sentence, of a block of code, or of words in a line; rows of data and quoted logs are left alone."""
    copies, kind, rows = repeat.copies or 0.0, repeat.texture.kind, repeat.texture.rows
    if quoted:
        return copies >= s.closed_row_copies and kind == "prose"
    if kind == "prose":
        return copies >= (s.closed_block_copies if repeat.block(s) else s.closed_copies)
    if repeat.block(s) and _varied_block(repeat, pieces):
        return copies >= s.closed_block_copies and repeat.tokens >= s.near_tokens
    if repeat.texture.words == 0 or kind in ("symbols", "blank"):
        # Not even rows or columns, or no figures in one endless line: no data looks like that.
        dense = not rows and not any(map(str.isspace, repeat.unit))
        return (dense or _endless(repeat)) and copies >= 4 * s.closed_row_copies
    if not rows:
        return copies >= (s.closed_copies if kind == "code" else s.closed_word_copies)
    if kind == "numbers":
        return False
    if repeat.texture.words < 3:
        return copies >= 4 * s.closed_row_copies
    several_lines = repeat.unit.count("\n") + repeat.unit.count("\\n") >= 2
    return copies >= (3 * s.closed_copies if several_lines else s.closed_row_copies)


def _endless(repeat: Repeat) -> bool:
    """Whether signs or single letters, and no figures, stand in one line."""
    unit = repeat.unit
    return bool(unit.strip()) and not any(map(str.isdecimal, unit)) and "\n" not in unit and "\\n" not in unit


def _varied_block(repeat: Repeat, pieces: Pieces) -> bool:
    """Whether the unit is a passage of many different pieces, and not one long row of zeros."""
    unit = pieces.codes[repeat.first : repeat.first + (repeat.period or 0)]
    return len(set(unit.tolist())) >= _BLOCK_DISTINCT


def _says_nothing_new(repeat: Repeat, text: str, code_copies: float, s: Settings) -> bool:
    """Language that only shuffles what it said before; program text needs more copies, data is none."""
    if repeat.tokens < s.near_tokens or _lists_records(text[repeat.start : repeat.end]):
        return False
    if repeat.texture.kind == "prose":
        return True
    return repeat.texture.kind == "code" and (repeat.copies or 0.0) >= code_copies


def _one_row(text: str) -> bool:
    """Whether all whole lines are equal."""
    return len({line.strip() for line in text.split("\n")[1:-1]} - {""}) == 1


def _lists_records(text: str) -> bool:
    """Whether the lines are records of a log or a list: hardly one comes twice, and they hold numbers."""
    lines = [line for line in text.split("\n") if line.strip()]
    numbered = sum(any(map(str.isdecimal, line)) for line in lines)
    return len(lines) >= _MIN_RECORDS and min(len(set(lines)), numbered) >= _RECORDS * len(lines)


def _drifts(repeat: Repeat, pieces: Pieces) -> bool:
    """Whether a loop varies anywhere: rows whose numbers go on are counters, and those that fill in a form honest."""
    region = repeat.region
    if region is None or repeat.texture.words < 2:
        return False
    head, copy = slice(region.start, region.end - region.period), slice(region.start + region.period, region.end)
    changed = int((pieces.codes[head] != pieces.codes[copy]).sum())
    beyond_numbers = int((pieces.masked[head] != pieces.masked[copy]).sum())
    return 2 * beyond_numbers >= changed and drifts(pieces.codes, region)


def _stuck_counter(repeat: Repeat, pieces: Pieces, prose_copies: float, other_copies: float) -> bool:
    """Whether rows that differ only in their numbers are one sentence said again and again, or a runaway counter."""
    region, copies = repeat.region, repeat.copies or 0.0
    if region is None or region.period < 3:
        return False
    numbers = int((pieces.masked[region.end - region.period : region.end] == 0).sum())
    steady = steady_counters(pieces, region)
    if repeat.texture.kind == "prose" and repeat.texture.words >= 4:
        return copies >= prose_copies and (steady or numbers <= max(1, region.period // 12))
    return steady and copies >= other_copies and repeat.texture.words >= 1 and repeat.share >= 0.5


def in_closed_fence(text: str, position: int) -> bool:
    """Whether `position` lies in a fenced block of `text` that is closed after it."""
    if "```" not in text and "~~~" not in text:
        return False
    open_at = -1
    for found in _FENCE.finditer(text):
        if open_at < 0:
            open_at = found.start()
        else:
            if open_at <= position <= found.start() + 1:
                return True
            open_at = -1
    return False

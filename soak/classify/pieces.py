"""
Text cut into pieces (words, numbers, spaces, symbols) that stand in for tokens where the server tells none.

The cut is greedy from the left and depends on the text alone, so it is the same however the text arrives in chunks.
"""

import re
import zlib
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# A word, blanks, a number, an escaped character of a JSON string, or any one character (each CJK letter is one). The
# bounds on length keep what the splitter holds back small. The commonest come first, for speed.
_PIECE = re.compile(
    rf"[A-Za-z][^\W\d_{_CJK}]{{0,23}}|[^\S\n]{{1,16}}|\d{{1,16}}|[^\W\d_{_CJK}]{{1,24}}|\\.|.", re.DOTALL
)
_MAX_CODES = 1 << 17
_CODE_MASK = (1 << 20) - 1
_MAX_KEPT_CHARS = 1_000_000
_MAX_IDS = 1_000_000


def split(text: str) -> list[str]:
    """Return the pieces of `text`; joined they are `text` again."""
    return _PIECE.findall(text)


class _Table(dict[str, int]):
    """The codes of pieces in the order of their coming; a full table tells checksums, so hostile text is bounded."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= _MAX_CODES:
            return zlib.crc32(piece.encode("utf-8", "surrogatepass")) & _CODE_MASK
        code = self[piece] = len(self) + 1
        return code


class Splitter:
    """
    Cuts text that arrives in parts; the last piece is held back, since it may go on.

    Single spaces get no code: most tokenizers give them to the word that follows, so that a code is about a token.
    """

    __slots__ = ("_codes", "_rest")

    def __init__(self) -> None:
        self._rest = ""
        self._codes = _Table()

    def push(self, text: str) -> list[int]:
        """Return the codes of the pieces that are complete now."""
        pieces = split(self._rest + text)
        self._rest = pieces.pop() if pieces else ""
        return self._encode(pieces)

    def finish(self) -> list[int]:
        """Return the code of the piece held back, if any."""
        pieces, self._rest = ([self._rest] if self._rest else []), ""
        return self._encode(pieces)

    def _encode(self, pieces: list[str]) -> list[int]:
        codes = self._codes
        return [codes[piece] for piece in pieces if piece != " "]


class Pieces:
    """
    One text as numbers: `codes` (equal pieces, equal codes), `masked` (all numbers are code 0), `starts` (offsets).

    `starts` has one entry more than there are pieces: the length of the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = split(text)
        table: dict[str, int] = {"": 0}
        self.codes: Codes = np.array([table.setdefault(part, len(table)) for part in self.parts], dtype=np.int64)
        numbers = np.array([word[:1].isdecimal() for word in table], dtype=bool)
        self.masked: Codes = np.where(numbers[self.codes], 0, self.codes)
        self.starts: Codes = np.zeros(len(self.parts) + 1, dtype=np.int64)
        np.cumsum(np.array(list(map(len, table)), dtype=np.int64)[self.codes], out=self.starts[1:])
        self._space = table.get(" ", 0)
        self._back: dict[tuple[int, bool], Codes] = {}

    def __len__(self) -> int:
        return len(self.parts)

    def tokens(self) -> Codes:
        """Return the codes without those of single spaces: what a `Splitter` makes of the text, but for the names."""
        spoken: Codes = self.codes[self.codes != self._space]
        return spoken

    def back(self, size: int, *, masked: bool = False) -> Codes:
        """Return the `distances` of its codes; numbers count as equal if `masked`. Computed once."""
        key = (size, masked)
        if key not in self._back:
            self._back[key] = distances(self.masked if masked else self.codes, size)
        return self._back[key]

    def slice(self, start: int, end: int) -> str:
        """Return the text of the pieces from `start` up to `end`."""
        return self.text[self.starts[start] : self.starts[min(end, len(self.parts))]]


class Cuts:
    """The texts of one answer as pieces, and its token ids as codes: each cut when first asked for, and once."""

    def __init__(self, ids: tuple[int, ...] | None) -> None:
        self._ids = ids
        self._kept: dict[str, Pieces] = {}
        self._left = _MAX_KEPT_CHARS

    def of(self, text: str) -> Pieces:
        """Return the pieces of a text; all texts but very long ones are kept."""
        pieces = self._kept.get(text)
        if pieces is None:
            pieces = Pieces(text)
            if len(text) <= self._left:
                self._left -= len(text)
                self._kept[text] = pieces
        return pieces

    @cached_property
    def ids(self) -> Codes | None:
        """The ids as numbers of at most 32 bits, the last million of them; None where the server told none."""
        if self._ids is None:
            return None
        return np.array([one & 0xFFFFFFFF for one in self._ids[-_MAX_IDS:]], dtype=np.int64)

    @property
    def first(self) -> int:
        """How many ids come before the first of `ids`."""
        return max(0, len(self._ids or ()) - _MAX_IDS)

    @cached_property
    def ids_back(self) -> Codes:
        """The `distances` of eight ids."""
        return distances(np.zeros(0, np.int64) if self.ids is None else self.ids, 8)


def grams(codes: Codes, size: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each run of `size` codes (empty if there are fewer)."""
    if len(codes) < size:
        return np.zeros(0, np.uint64)
    hashes = codes.astype(np.uint64) + np.uint64(1)
    width = 1
    while width < size:
        # Two runs side by side, or overlapping where the size is no power of two, make a longer one.
        step = min(width, size - width)
        left, right = hashes[:-step], hashes[step:]
        hashes = left * np.uint64(0x9E3779B97F4A7C15) + (right ^ (right >> np.uint64(29)))
        hashes ^= hashes >> np.uint64(31)
        width += step
    return hashes


def distances(codes: Codes, size: int) -> Codes:
    """
    Return for each run of `size` codes how far back it occurred last (0: never).

    Hash and position are sorted as one number; what the position leaves of the hash (44 bits of it for a million codes)
    makes a false match improbable.
    """
    hashes = grams(codes, size)
    back = np.zeros(len(hashes), dtype=np.int64)
    bits = np.uint64(len(hashes).bit_length())
    ranked = np.sort((hashes << bits) | np.arange(len(hashes), dtype=np.uint64))
    order = (ranked & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    ranked >>= bits
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    back[order[same + 1]] = order[same + 1] - order[same]
    return back

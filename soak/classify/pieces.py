"""
Text cut into pieces (words, numbers, spaces, symbols) that stand in for tokens where the server tells none.

The cut is greedy from the left and depends on the text alone, so it is the same however the text arrives in chunks.
"""

import re
import zlib
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# An escaped character of a JSON string; a number; one CJK letter; a word; blanks; or any one character. The bounds on
# length keep what the splitter holds back small.
_PIECE = re.compile(rf"\\.|\d{{1,16}}|[{_CJK}]|[^\W\d_{_CJK}]{{1,24}}|[^\S\n]{{1,16}}|.", re.DOTALL)
_MAX_CODES = 1 << 17
_CODE_MASK = (1 << 20) - 1


def split(text: str) -> list[str]:
    """Return the pieces of `text`; joined they are `text` again."""
    return _PIECE.findall(text)


class Splitter:
    """Cuts text that arrives in parts; the last piece is held back, since it may go on."""

    __slots__ = ("_codes", "_rest")

    def __init__(self) -> None:
        self._rest = ""
        self._codes: dict[str, int] = {}

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
        if len(codes) < _MAX_CODES:
            return [codes.setdefault(piece, len(codes)) for piece in pieces]
        return [_code(codes, piece) for piece in pieces]


def _code(codes: dict[str, int], piece: str) -> int:
    """Return a known piece's code, else one from its checksum: the table must not grow with hostile text."""
    known = codes.get(piece)
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) & _CODE_MASK if known is None else known


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
        self._table = table
        numbers = np.array([word[:1].isdecimal() for word in table], dtype=bool)
        self.masked: Codes = np.where(numbers[self.codes], 0, self.codes)
        self.starts: Codes = np.fromiter(
            accumulate(map(len, self.parts), initial=0), dtype=np.int64, count=len(self.parts) + 1
        )

    def __len__(self) -> int:
        return len(self.parts)

    def keys(self, *, masked: bool) -> Codes:
        """Return codes that can be compared between texts: checksums of the pieces, numbers as 0 if `masked`."""
        sums = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in self._table], dtype=np.int64)
        keys: Codes = sums[self.codes]
        return np.where(self.masked == 0, 0, keys) if masked else keys

    def slice(self, start: int, end: int) -> str:
        """Return the text of the pieces from `start` up to `end`."""
        return self.text[self.starts[start] : self.starts[min(end, len(self.parts))]]


def grams(codes: Codes, size: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each run of `size` codes (empty if there are fewer)."""
    count = len(codes) - size + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    values = codes.astype(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for k in range(size):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + values[k : k + count] + np.uint64(1)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def distances(codes: Codes, size: int) -> Codes:
    """Return for each run of `size` codes how far back it occurred last (0: never)."""
    hashes = grams(codes, size)
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    back = np.zeros(len(hashes), dtype=np.int64)
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    back[order[same + 1]] = order[same + 1] - order[same]
    return back

"""What a stretch of text is made of: the same repetition is a loop in prose and honest in a table."""

import re
from typing import Literal, NamedTuple

Kind = Literal["blank", "symbols", "numbers", "words", "code", "prose"]

_WORD = re.compile(r"[^\W\d_]{2,}")
_CJK_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CODE_SIGNS = frozenset('{}[]()<>=;|\\/_&$#@^~+*"`')
_ROW_END = re.compile(r"\n|\\n|[,;|\t]\s*$")
_NEXT_WORD = re.compile(r"(?<=[^\W\d_])[,;:.]? (?=[^\W\d_])")
_HEX_WORD = re.compile(r"\b(?:0x)?[0-9a-fA-F]+\b")


class Texture(NamedTuple):
    """
    `kind` by what prevails; `words` is the number of words (one per two CJK letters); `rows` says whether the text is
    laid out in rows or cells (it ends lines, or ends in a separator).
    """

    kind: Kind
    words: int
    rows: bool


def texture(text: str) -> Texture:
    """Return what `text` (an excerpt of at most a few thousand characters) is made of."""
    visible = [char for char in text if not char.isspace()]
    plain = text.replace("\\n", "\n").replace("\\t", "\t")
    words = len(_WORD.findall(plain)) + len(_CJK_LETTER.findall(plain)) // 2
    return Texture(_kind(visible, plain, words), words, _ROW_END.search(text) is not None)


def _kind(visible: list[str], text: str, words: int) -> Kind:
    if not visible:
        return "blank"
    letters = sum(char.isalpha() for char in visible) / len(visible)
    digits = sum(char.isdigit() for char in visible) / len(visible)
    signs = sum(char in _CODE_SIGNS for char in visible) / len(visible)
    if letters + digits < 0.3:
        return "symbols"
    if mostly_hex(text) or digits >= letters:
        return "numbers"
    if signs > 0.04:
        return "code"
    if words < 3:
        return "words"
    # Sentences put words beside words; rows of data put separators and numbers between them.
    spaced = len(_NEXT_WORD.findall(text)) + len(_CJK_LETTER.findall(text)) // 2
    return "prose" if spaced >= 0.5 * (words - 1) else "code"


def mostly_hex(text: str) -> bool:
    """Whether the words are bytes or hashes (all of hex digits, some digit among them)."""
    found = _HEX_WORD.findall(text)
    length = sum(map(len, found))
    return length > 0.8 * sum(char.isalnum() for char in text) and any(
        char.isdigit() for word in found for char in word
    )

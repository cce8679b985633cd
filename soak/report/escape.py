"""
Hostile text made harmless.

On a terminal, control characters can move the cursor, rewrite what was printed, change the title or answer for the user;
bidirectional and zero-width characters can make text read as something else. In markdown, answers can open links,
images, HTML and mentions. Here every such character is shown as what it is, never passed on.
"""

import re
import unicodedata

_SHOWN = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MARKUP = re.compile(r"([\\`*_\[\]#!|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)  # what makes a bare address a link
_LINE_START = re.compile(r"^([-+=]|\d+(?=[.)]))")  # what makes a line a list, a rule or a heading


def escape_terminal(text: str, *, keep_lines: bool = False) -> str:
    """
    Return `text` with every control, format, surrogate and line-breaking character written out as an escape.

    `keep_lines` leaves `\\n` as it is and turns tabs into four spaces; all else is the same.
    """
    return "".join(_visible(char, keep_lines) for char in text)


def _visible(char: str, keep_lines: bool) -> str:
    if " " <= char <= "~":
        return char
    if keep_lines and char in "\n\t":
        return char if char == "\n" else "    "
    if char in _SHOWN:
        return _SHOWN[char]
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
    return char


def escape_markdown(text: str) -> str:
    """Return `text` on one line with nothing that markdown or HTML would act on: markup, links, mentions, entities."""
    entities = "".join(_ENTITIES.get(char, char) for char in escape_terminal(text))
    unlinked = _LINK.sub(lambda found: f"&{ord(found[0])};", entities)
    marked = re.sub(r"&(\d+;)", r"&#\1", _MARKUP.sub(r"\\\1", unlinked).replace("&\\#", "&#"))
    return _LINE_START.sub(r"&#8203;\1", marked)


def shorten(text: str, length: int) -> str:
    """Return `text` with its middle replaced by "…" where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    head = max((length - 1) * 2 // 3, 0)
    tail = max(length - 1 - head, 0)
    return f"{text[:head]}…{text[len(text) - tail :]}"


def one_line(text: str, length: int) -> str:
    """Return `text` escaped for a terminal on one line of at most `length` characters; only what can be shown is read."""
    return shorten(escape_terminal(shorten(text, 4 * length)), length)

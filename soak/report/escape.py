"""
Hostile text made harmless.

On a terminal, control characters can move the cursor, rewrite what was printed, change the title or answer for the
user; bidirectional and zero-width characters can make text read as something else. In markdown, answers can open
links, images, HTML and mentions. Here every such character is shown as what it is, never passed on.
"""

import re

_SHOWN = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ACTIVE = re.compile(
    r"[\\`*_\[\]#!|~$&<>@]"  # emphasis, code, links, images, tables, formulas, entities, HTML, mentions
    r"|:(?=//)|(?<=www)\."  # a bare address
    r"|^[-+](?=\s|$)|^[-=](?=[-=\s]*$)|^\d(?=\d*[.)](?:\s|$))",  # a list, a rule or a heading
    re.IGNORECASE,
)


def escape_terminal(text: str, *, keep_lines: bool = False) -> str:
    """
    Return `text` with every control, format, surrogate, unassigned and odd space character written out.

    `keep_lines` leaves `\\n` as it is and turns tabs into four spaces; all else is the same.
    """
    return "".join(_visible(char, keep_lines) for char in text)


def _visible(char: str, keep_lines: bool) -> str:
    if char.isprintable():
        return char
    if keep_lines and char in "\n\t":
        return char if char == "\n" else "    "
    if char in _SHOWN:
        return _SHOWN[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def escape_markdown(text: str) -> str:
    """Return `text` on one line with nothing that markdown or HTML would act on: markup, links, mentions, entities."""
    return _ACTIVE.sub(lambda found: _inert(found[0]), escape_terminal(text))


def _inert(char: str) -> str:
    """Return a character so that markdown shows it and does nothing: as an entity where a backslash would not do."""
    return f"\\{char}" if char in "\\`*_[]#!|~$" else f"&#{ord(char)};"


def shorten(text: str, length: int) -> str:
    """Return `text` with its middle replaced by "…" where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    head = max((length - 1) * 2 // 3, 0)
    tail = max(length - 1 - head, 0)
    return f"{text[:head]}…{text[len(text) - tail :]}"


def printable(text: str) -> str:
    """Return `text` on one line, safe to print, at most 400 characters long."""
    return one_line(text, 400)


def one_line(text: str, length: int) -> str:
    """Return `text` escaped for a terminal on one line of at most `length` characters."""
    return shorten(escape_terminal(shorten(text, 4 * length)), length)

"""Plain tables: padded columns for a terminal, pipes for markdown."""

import re
import unicodedata
from collections.abc import Sequence

Row = Sequence[str]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # put there by `style`, takes no column


def terminal_table(header: Row, rows: Sequence[Row], *, indent: str = "  ") -> list[str]:
    """Return the lines of a table: first column to the left, the others to the right. Cells must be escaped before."""
    widths = [max(_width(row[i]) for row in [header, *rows]) for i in range(len(header))]
    return [f"{indent}{_line(row, widths)}".rstrip() for row in [header, *rows]]


def _line(row: Row, widths: Sequence[int]) -> str:
    first = row[0] + " " * (widths[0] - _width(row[0]))
    rest = (" " * (width - _width(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join([first, *rest])


def _width(text: str) -> int:
    """Return the columns a text takes: two for East Asian wide characters, none for combining marks."""
    text = _COLOUR.sub("", text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def markdown_table(header: Row, rows: Sequence[Row]) -> list[str]:
    """Return the lines of a markdown table: first column left, the others right. Cells must be escaped before."""
    rule = ["---", *("---:" for _ in header[1:])]
    return [f"| {' | '.join(row)} |" for row in [header, rule, *rows]]

"""Strings to typed cells: the narrowest type that fits every cell of a column."""

import datetime
import re

INTEGER = re.compile(r"[+-]?\d+")
FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

TYPES = ("int", "float", "date", "text")


def column_type(cells):
    """Return the narrowest of TYPES that fits all cells which are not empty; a column of empty cells is text."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    if not filled:
        return "text"
    for kind in TYPES[:-1]:
        if all(fits(cell, kind) for cell in filled):
            return kind
    return "text"


def fits(cell, kind):
    """Whether a cell (stripped, not empty) can be read as the type."""
    if kind == "int":
        # 007 is an identifier, not a number.
        return INTEGER.fullmatch(cell) is not None and not re.match(r"[+-]?0\d", cell)
    if kind == "float":
        return FLOAT.fullmatch(cell) is not None and not re.match(r"[+-]?0\d", cell)
    if kind == "date":
        return DATE.fullmatch(cell) is not None and _date(cell) is not None
    return True


def _date(cell):
    try:
        return datetime.date.fromisoformat(cell)
    except ValueError:
        return None


def convert(cell, kind):
    """Return the typed value of a cell; an empty one is None in a column of any type."""
    stripped = cell.strip()
    if not stripped:
        return None
    if kind == "int":
        return int(stripped)
    if kind == "float":
        return float(stripped)
    if kind == "date":
        return _date(stripped)
    return cell

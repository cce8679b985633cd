"""Tables: a header, a line of dashes and colons, rows."""

import re

from marrow.nodes import Table

DASHES = re.compile(r"[ ]{0,3}\|?[ ]*:?-+:?[ ]*(\|[ ]*:?-+:?[ ]*)*\|?[ ]*$")


def is_table(lines, at):
    """Whether a table begins at a line: it holds a pipe and a line of dashes with as many columns follows."""
    if at + 1 >= len(lines) or "|" not in lines[at] or not DASHES.match(lines[at + 1]):
        return False
    return len(split_row(lines[at])) == len(split_row(lines[at + 1]))


def parse_table(lines, at):
    """Return (Table, line after it)."""
    header = split_row(lines[at])
    alignments = [_alignment(cell) for cell in split_row(lines[at + 1])]
    end, rows = at + 2, []
    while end < len(lines) and "|" in lines[end]:
        cells = split_row(lines[end])
        rows.append((cells + [""] * len(header))[: len(header)])
        end += 1
    return Table(header, alignments, rows), end


def split_row(line):
    """Return the cells of a row, stripped, without the outer pipes."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _alignment(dashes):
    left, right = dashes.startswith(":"), dashes.endswith(":")
    return "center" if left and right else "left" if left else "right" if right else None

"""A grid on the terminal."""

import msgspec
from rigs.grids import CASE, said_of

from soak.facts import GridFound
from soak.report import terminal_grid
from soak.scenario import find_grid


def found() -> GridFound:
    """A grid in which the fault needs speculation and the cache."""
    return said_of(find_grid("default"), lambda cell: 0.4 * (cell.levels[:2] == (0, 0)), seed=1)


def test_the_table_has_every_cell_and_ends_in_the_sentence() -> None:
    """Eight cells with their counts, each question with its probability, and one sentence at the end."""
    text = terminal_grid(found())
    lines = text.splitlines()
    assert sum(line.strip().startswith("speculation ") and "; cache " in line for line in lines) == 8
    assert lines[-1].startswith("fails in ")
    assert ": cache × speculation; luck alone" in lines[-1]
    assert "by luck" in text
    assert f"20 repeats in each cell of: {CASE.name}" in lines[0]


def test_what_came_from_outside_stays_text() -> None:
    """Control characters in names, reasons and notes do not reach the terminal."""
    evil = "\x1b[31mred\x07\r\n"
    hostile = msgspec.structs.replace(found(), grid=evil, turns=(evil,), untried=(evil,), notes=(evil,), text=evil)
    text = terminal_grid(hostile)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\r" not in text

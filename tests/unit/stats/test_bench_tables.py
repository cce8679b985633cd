"""Tables between marks on a page of markdown."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "ops" / "bench"
PAGE = "a\n<!-- one: made by x.py -->\nold\n<!-- end -->\nb\n<!-- two -->\n<!-- end -->\nc\n"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, as the scripts beside it import it."""
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("tables")


def test_tables_are_put_between_their_marks_and_nowhere_else(tables: Any, tmp_path: Path) -> None:
    r"""What stood between marks is replaced, to the letter, and what is written passes a check."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    made = {"one": lambda: tables.table(("h", "i"), [("1", r"\1")]), "two": lambda: "2"}
    with pytest.raises(SystemExit, match="does not say what was computed"):
        tables.carry_out(page, made, write=False)
    tables.carry_out(page, made, write=True)
    tables.carry_out(page, made, write=False)
    assert page.read_text() == (
        "a\n<!-- one: made by x.py -->\n\n| h | i |\n| --- | --- |\n| 1 | \\1 |\n\n<!-- end -->\nb\n"
        "<!-- two -->\n\n2\n\n<!-- end -->\nc\n"
    )


def test_a_table_without_a_place_is_told(tables: Any) -> None:
    """A page that has no place for a table, or two, is not written."""
    with pytest.raises(SystemExit, match="has 0 places for the table 'three'"):
        tables.filled(PAGE, {"three": str})
    with pytest.raises(SystemExit, match="has 2 places for the table 'two'"):
        tables.filled(PAGE + PAGE, {"two": str})

import pytest

from tablekit import Table
from tablekit.render import as_csv, as_markdown, as_text, format_cell, quote, shorten, visible


def test_text():
    table = Table.from_text("name,count,share\nApples,12,0.5\nPears,3,\n")
    assert as_text(table) == (
        "name    count  share\n"
        "------  -----  -----\n"
        "Apples     12   0.50\n"
        "Pears       3\n"
    )


def test_text_without_rows():
    assert as_text(Table.from_text("a,bc\n")) == "a  bc\n-  --\n"


def test_markdown():
    table = Table.from_text("name,count\na|b,1\n", ",")
    assert as_markdown(table) == "| name | count |\n| --- | ---: |\n| a\\|b | 1 |\n"


@pytest.mark.parametrize("text", ["a,b\n1,x\n", 'a,b\n1,"x,y"\n', 'a,b\n1,"say ""hi"""\n', "a,b\n,\n1,x\n"])
def test_csv_round_trip(text):
    table = Table.from_text(text, ",")
    assert Table.from_text(as_csv(table), ",") == table


@pytest.mark.parametrize("text, quoted", [("a", "a"), ("a,b", '"a,b"'), ('"', '""""'), ("a\nb", '"a\nb"'), ("", "")])
def test_quote(text, quoted):
    assert quote(text) == quoted


@pytest.mark.parametrize("cell, text", [(None, ""), (1, "1"), (1.005, "1.00"), (2.5, "2.50"), ("x", "x")])
def test_format_cell(cell, text):
    assert format_cell(cell) == text


@pytest.mark.parametrize("text, columns, short", [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("abcd", 1, "…"), ("", 0, "")])
def test_shorten(text, columns, short):
    assert shorten(text, columns) == short


def test_visible():
    assert visible("a\tb\nc\\") == "a\\tb\\nc\\\\"

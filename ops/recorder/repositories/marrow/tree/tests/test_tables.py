import pytest

from marrow import to_html
from marrow.tables import split_row


@pytest.mark.parametrize("line, cells", [("|a|b|", ["a", "b"]), ("a | b", ["a", "b"]), ("| a |", ["a"]), ("|a||b|", ["a", "", "b"]), ("  | a | b |  ", ["a", "b"])])
def test_rows(line, cells):
    assert split_row(line) == cells


def test_table():
    text = "| a | b | c |\n|:--|--:|:-:|\n| 1 | *2* | 3 |\n| 4 |\n| 5 | 6 | 7 | 8 |\n"
    assert to_html(text) == (
        "<table>\n"
        '<tr><th style="text-align: left">a</th><th style="text-align: right">b</th><th style="text-align: center">c</th></tr>\n'
        '<tr><td style="text-align: left">1</td><td style="text-align: right"><em>2</em></td><td style="text-align: center">3</td></tr>\n'
        '<tr><td style="text-align: left">4</td><td style="text-align: right"></td><td style="text-align: center"></td></tr>\n'
        '<tr><td style="text-align: left">5</td><td style="text-align: right">6</td><td style="text-align: center">7</td></tr>\n'
        "</table>\n"
    )


@pytest.mark.parametrize("text", ["a | b\nc | d", "a | b\n---", "a\n|---|---|"])
def test_no_table(text):
    assert "<table>" not in to_html(text)

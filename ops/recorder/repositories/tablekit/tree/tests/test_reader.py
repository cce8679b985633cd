import pytest

from tablekit.errors import ReadError
from tablekit.reader import read_rows, sniff, split_fields


@pytest.mark.parametrize(
    "line, fields",
    [
        ("a,b,c", ["a", "b", "c"]),
        ("a,,c", ["a", "", "c"]),
        (",", ["", ""]),
        ('"a,b",c', ["a,b", "c"]),
        ('"say ""hi""",c', ['say "hi"', "c"]),
        ('5" pipe,c', ['5" pipe', "c"]),
        ('"",c', ["", "c"]),
        ('"a"b,c', ["ab", "c"]),
    ],
)
def test_split_fields(line, fields):
    assert split_fields(line, ",") == fields


def test_open_quote():
    with pytest.raises(ReadError, match="line 3: a quote is opened"):
        read_rows('a,b\n1,2\n"3,4\n')


@pytest.mark.parametrize(
    "text, delimiter",
    [
        ("a,b\n1,2\n", ","),
        ("a\tb\n1,5\t2\n", "\t"),
        ("a;b\n1,5;2,5\n", ";"),
        ("a|b\n1|2\n", "|"),
        ("name\nx\n", ","),
        ('a;b\n"x,y,z";1\n', ";"),
        ("", ","),
    ],
)
def test_sniff(text, delimiter):
    assert sniff(text) == delimiter


def test_rows_of_wrong_length():
    assert read_rows("a,b,c\n1\n1,2\n")[1] == [["1", "", ""], ["1", "2", ""]]
    with pytest.raises(ReadError, match="line 4: 3 cells where the header has 2"):
        read_rows("a,b\n1,2\n\n1,2,3\n")


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_empty_input(text):
    with pytest.raises(ReadError, match="empty"):
        read_rows(text)


def test_header():
    assert read_rows("\ufeff a , b\n1,2\n")[0] == ["a", "b"]
    with pytest.raises(ReadError, match="two columns are called 'a'"):
        read_rows("a,b,a\n")
    with pytest.raises(ReadError, match="no name"):
        read_rows("a,,b\n")


def test_line_endings():
    assert read_rows("a,b\r\n1,2\r\n3,4")[1] == [["1", "2"], ["3", "4"]]

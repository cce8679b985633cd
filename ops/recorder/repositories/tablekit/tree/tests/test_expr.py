import datetime

import pytest

from tablekit.errors import ExpressionError
from tablekit.expr import Both, Comparison, Either, Missing, Not, columns_of, evaluate, parse

ROW = {"a": 5, "b": "Blue", "c": None, "d": datetime.date(2024, 5, 1), "e f": 1.5}
KINDS = {"a": "int", "b": "text", "c": "int", "d": "date", "e f": "float"}

A, B, C = (Comparison(name, "=", 1) for name in "abc")


@pytest.mark.parametrize(
    "text, tree",
    [
        ("a = 1", A),
        ("a = 1 and b = 1", Both(A, B)),
        ("a = 1 or b = 1", Either(A, B)),
        ("a = 1 and b = 1 or c = 1", Either(Both(A, B), C)),
        ("a = 1 and (b = 1 or c = 1)", Both(A, Either(B, C))),
        ("(a = 1)", A),
        ("not a = 1", Not(A)),
        ("not not a = 1", Not(Not(A))),
        ("a is missing", Missing("a")),
        ("a is not missing", Not(Missing("a"))),
        ("A = 1", Comparison("A", "=", 1)),
        ("a = 1 AND b = 1", Both(A, B)),
        ("`e f` >= 1.5", Comparison("e f", ">=", 1.5)),
        ("a = 'x y'", Comparison("a", "=", "x y")),
        ('a ~ "it\'s"', Comparison("a", "~", "it's")),
        ("d<2024-05-02", Comparison("d", "<", "2024-05-02")),
        ("a = -3", Comparison("a", "=", -3)),
    ],
)
def test_parse(text, tree):
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text, position",
    [("", 0), ("a", 1), ("a =", 3), ("a = 1 b", 6), ("(a = 1", 6), ("a is 1", 5), ("and", 0), ("a = 1 and", 9), ("a ? 1", 2)],
)
def test_wrong_expressions(text, position):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text, holds",
    [
        ("a = 5", True),
        ("a = 5.0", True),
        ("a != 5", False),
        ("a > 4", True),
        ("a < '10'", True),
        ("a = x", False),
        ("a != x", True),
        ("b = Blue", True),
        ("b = blue", False),
        ("b ~ blue", True),
        ("c = 1", False),
        ("c != 1", False),
        ("not c = 1", True),
        ("c is missing", True),
        ("a is missing", False),
        ("d >= 2024-05-01", True),
        ("d < 2024-05-01", False),
        ("d ~ 2024-05", True),
        ("`e f` < 2", True),
    ],
)
def test_evaluate(text, holds):
    assert evaluate(parse(text), ROW, KINDS) is holds


def test_columns_of():
    assert columns_of(parse("a = 1 and not (b ~ x or `e f` is missing)")) == {"a", "b", "e f"}

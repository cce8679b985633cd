from types import SimpleNamespace

import pytest

from quill.errors import TemplateError, TemplateSyntaxError
from quill.expressions import Expression

SCOPE = {
    "n": 3, "zero": 0, "s": "Text", "xs": [1, 2, 3], "d": {"k": "v", "items": [10, 20]}, "o": SimpleNamespace(a=SimpleNamespace(b=1)), "nothing": None,
}


def value(text):
    return Expression(text, "t", 1).evaluate(SCOPE)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1", 1), ("-2", -2), ("1.5", 1.5), ("'a'", "a"), ('"it\'s"', "it's"), ("true", True), ("none", None), ("n", 3), ("d.k", "v"),
        ("d.items.1", 20), ("o.a.b", 1), ("xs.0", 1), ("(n)", 3), ("n == 3", True), ("n != 3", False), ("n < 4", True), ("n >= 4", False),
        ("2 in xs", True), ("'x' in s", True), ("not n", False), ("not not n", True), ("n and zero", 0), ("zero or n", 3),
        ("true or false and false", True), ("not zero and n", 3), ("s|upper", "TEXT"), ("s|upper|lower", "text"), ("xs|length", 3),
        ("xs|join(', ')", "1, 2, 3"), ("xs|first", 1), ("xs|last", 3), ("s|replace('T', 'N')", "Next"), ("n|round(2)", "3.00"),
        ("xs|reverse|first", 3), ("'2024-05-01'|date('%d.%m.')", "01.05."), ("missing|default(5)", 5), ("n|default(5)", 3), ("nothing|default('x')", "x"),
        ("'a b c'|truncate(4)", "a b…"), ("xs|length == 3 and n", 3),
    ],
)
def test_values(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize("text", ["missing", "d.missing", "missing.more.still", "xs.9", "o._a", "n.x"])
def test_missing(text):
    assert str(value(text)) == ""
    assert not value(text)


@pytest.mark.parametrize("text", ["", "1 2", "a b", "a.", "a|", "a|nofilter", "(a", "a ==", "a|join(", "a ? b", "|upper"])
def test_syntax_errors(text):
    with pytest.raises(TemplateSyntaxError):
        Expression(text, "t", 1)


def test_errors_name_the_place():
    with pytest.raises(TemplateError, match="page, line 7: 's|round'"):
        Expression("s|round", "page", 7).evaluate(SCOPE)

import pytest

from quill.errors import TemplateSyntaxError
from quill.lexer import Lexer


def tokens(source):
    return [(token.kind, token.value) for token in Lexer(source, "t").run()]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("", []),
        ("plain", [("text", "plain")]),
        ("a{{ b }}c", [("text", "a"), ("print", "b"), ("text", "c")]),
        ("{% if x %}y{% endif %}", [("tag", "if x"), ("text", "y"), ("tag", "endif")]),
        ("a{# note #}b", [("text", "a"), ("text", "b")]),
        ("a{# {{ b }} #}c", [("text", "a"), ("text", "c")]),
        ("{% raw %}{{ a }}{% endraw %}", [("text", "{{ a }}")]),
        ("a  {{- b -}}  c", [("text", "a"), ("print", "b"), ("text", "c")]),
        ("a \n {%- x -%} \n b", [("text", "a"), ("tag", "x"), ("text", "b")]),
        ("a {#- b -#} c", [("text", "a"), ("text", "c")]),
        ("{% raw -%} a {%- endraw %} b", [("text", "a"), ("text", " b")]),
        ("{ {a} }", [("text", "{ {a} }")]),
    ],
)
def test_tokens(source, expected):
    assert tokens(source) == expected


@pytest.mark.parametrize("source, line", [("{{ a", 1), ("a\n{% b", 2), ("a\n\n{# b\n", 3), ("{% raw %}\nx", 1)])
def test_never_closed(source, line):
    with pytest.raises(TemplateSyntaxError, match="never closed") as caught:
        tokens(source)
    assert caught.value.line == line


def test_lines():
    source = "one\ntwo {{ a }}\n{% if\n b %}\n{{ c }}"
    assert [(token.value, token.line) for token in Lexer(source, "t").run() if token.kind != "text"] == [("a", 2), ("if\n b", 3), ("c", 5)]

import pytest

from quill import Environment, Safe, TemplateError, TemplateSyntaxError


def render(source, **variables):
    return Environment().from_string(source).render(**variables)


@pytest.mark.parametrize(
    "source, expected",
    [
        ("Hello {{ name }}!", "Hello Ada!"), ("{{ missing }}", ""), ("{{ none }}", ""), ("{{ n }}", "3"),
        ("{% if n > 2 %}big{% else %}small{% endif %}", "big"), ("{% if n < 2 %}a{% elif n == 3 %}b{% else %}c{% endif %}", "b"),
        ("{% if missing %}a{% endif %}", ""), ("{% for x in xs %}{{ x }},{% endfor %}", "1,2,3,"),
        ("{% for x in missing %}a{% else %}none{% endfor %}", "none"),
        ("{% for x in xs %}{{ loop.index }}{% if not loop.last %}-{% endif %}{% endfor %}", "1-2-3"),
        ("{% for x in xs %}{% for y in xs %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "11 12 13 21 22 23 31 32 33 "),
        ("{% set x = n|round(1) %}{{ x }}", "3.0"), ("{% raw %}{{ n }}{% endraw %}", "{{ n }}"),
        ("a {#- gone -#} b", "ab"), ("{% for x in xs -%} {{ x }} {%- endfor %}", "123"),
    ],
)
def test_render(source, expected):
    assert render(source, name="Ada", n=3, xs=[1, 2, 3]) == expected


@pytest.mark.parametrize(
    "source, expected",
    [
        ("{{ x }}", "&lt;b&gt; &amp; &quot;&#39;"), ("{{ x|safe }}", "<b> & \"'"), ("{{ x|escape }}", "&lt;b&gt; &amp; &quot;&#39;"),
        ("{{ y }}", "<i>"), ("{{ y|upper }}", "<I>"), ("{{ y|replace('i', 'b') }}", "&lt;b&gt;"), ("{{ xs|join(' & ') }}", "&lt; &amp; &gt;"),
        ("{{ x|linebreaks }}", "&lt;b&gt; &amp; &quot;&#39;"),
    ],
)
def test_escaping(source, expected):
    assert render(source, x="<b> & \"'", y=Safe("<i>"), xs=["<", ">"]) == expected


@pytest.mark.parametrize(
    "source, line, message",
    [
        ("{% if a %}", 1, "if is never closed"), ("\n{% for x in y %}{% else %}", 2, "for is never closed"), ("{% endif %}", 1, "unexpected tag 'endif'"),
        ("\n\n{% for x of y %}{% endfor %}", 3, "for needs the form"), ("{% set x %}", 1, "set needs the form"), ("\n{{ a b }}", 2, "unexpected 'b'"),
        ("{% if %}{% endif %}", 1, "expression is missing"), ("{% nope %}", 1, "unexpected tag 'nope'"),
    ],
)
def test_syntax_errors(source, line, message):
    with pytest.raises(TemplateSyntaxError, match=message) as caught:
        render(source)
    assert caught.value.line == line


def test_runtime_error_has_a_line():
    with pytest.raises(TemplateError, match="cannot loop over 3") as caught:
        render("a\n{% for x in n %}{% endfor %}", n=3)
    assert caught.value.line == 2


def test_include():
    env = Environment(sources={"a": "[{% include 'b' %}]", "b": "{{ x }}"})
    assert env.render("a", x=1) == "[1]"
    with pytest.raises(TemplateError, match="b, line 1: no template 'c'"):
        Environment(sources={"b": "{% include 'c' %}"}).render("b")


def test_examples():
    env = Environment(folder="examples")
    lines = [{"text": "Tea", "count": 2, "price": 4.2}, {"text": "Cups & saucers", "count": 1, "price": 18}]
    page = env.render("invoice.html", customer={"name": "Ada & Sons", "address": "1 Mill Lane\nBath"}, number=17, lines=lines, total=26.4)
    assert "Ada &amp; Sons" in page
    assert "Cups &amp; saucers" in page
    assert "26.40" in page
    with pytest.raises(TemplateError, match="no template '../README.md'"):
        env.render("../README.md")

import pytest

from marrow import to_html
from marrow.inline import Inline


@pytest.mark.parametrize(
    "text, html",
    [
        ("a & b < c", "a &amp; b &lt; c"), ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"), ("*a*", "<em>a</em>"), ("**a**", "<strong>a</strong>"), ("_a_", "<em>a</em>"),
        ("__a__", "<strong>a</strong>"), ("**a *b* c**", "<strong>a <em>b</em> c</strong>"), ("2 * 3 * 4", "2 * 3 * 4"), ("`a`", "<code>a</code>"),
        ("`*a*`", "<code>*a*</code>"), ("`` a`b ``", "<code>a`b</code>"), ("`a\nb`", "<code>a b</code>"), ("\\*a\\*", "*a*"), ("\\a", "\\a"), ("a  \nb", "a<br>\nb"), ("a\\\nb", "a<br>\nb"),
        ("[a](b)", '<a href="b">a</a>'), ('[a](b "c")', '<a href="b" title="c">a</a>'), ("![a](b.png)", '<img src="b.png" alt="a">'), ("[*a*](b)", '<a href="b"><em>a</em></a>'),
        ("[a](b_c_d)", '<a href="b_c_d">a</a>'), ("<https://a.b/c?d=1&e=2>", '<a href="https://a.b/c?d=1&amp;e=2">https://a.b/c?d=1&amp;e=2</a>'), ("[a] (b)", "[a] (b)"), ("[[a]](b)", '<a href="b">[a]</a>'),
        ("[`a`](b)", '<a href="b"><code>a</code></a>'),
    ],
)
def test_inline(text, html):
    assert Inline().render(text) == html


@pytest.mark.parametrize("text", ["[a][x]", "[a][X]", "[x][]"])
def test_references(text):
    shown = "a" if "a" in text else "x"
    assert to_html(f'{text}\n\n[x]: /y "z"') == f'<p><a href="/y" title="z">{shown}</a></p>\n'


def test_unknown_reference():
    assert to_html("[a][b]") == "<p>[a][b]</p>\n"

import pytest

from marrow import to_html


@pytest.mark.parametrize(
    "text, html",
    [
        ("", ""), ("\n\n", ""), ("a", "<p>a</p>\n"), ("a\nb", "<p>a\nb</p>\n"), ("a\n\nb", "<p>a</p>\n<p>b</p>\n"),
        ("# A", '<h1 id="a">A</h1>\n'), ("### A b ###", '<h3 id="a-b">A b</h3>\n'), ("#a", "<p>#a</p>\n"), ("#", '<h1 id="section"></h1>\n'),
        ("A\n===", '<h1 id="a">A</h1>\n'), ("A\nb\n---", '<h2 id="a-b">A\nb</h2>\n'), ("# A\n# A", '<h1 id="a">A</h1>\n<h1 id="a-2">A</h1>\n'),
        ("---", "<hr>\n"), ("* * *", "<hr>\n"), ("a\n\n---\nb", "<p>a</p>\n<hr>\n<p>b</p>\n"),
        ("> a\n> b", "<blockquote>\n<p>a\nb</p>\n</blockquote>\n"), ("> a\n>\n> > b", "<blockquote>\n<p>a</p>\n<blockquote>\n<p>b</p>\n</blockquote>\n</blockquote>\n"),
        ("```py\na < b\n```", '<pre><code class="language-py">a &lt; b\n</code></pre>\n'), ("~~~\n```\n~~~", "<pre><code>```\n</code></pre>\n"),
        ("```\na", "<pre><code>a\n</code></pre>\n"), ("    a\n\n      b\nc", "<pre><code>a\n\n  b\n</code></pre>\n<p>c</p>\n"),
        ("a\n# b", '<p>a</p>\n<h1 id="b">b</h1>\n'), ("[x]: /y\na", "<p>a</p>\n"),
    ],
)
def test_blocks(text, html):
    assert to_html(text) == html

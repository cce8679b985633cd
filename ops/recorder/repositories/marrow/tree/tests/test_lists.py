import pytest

from marrow import to_html


@pytest.mark.parametrize(
    "text, html",
    [
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n"), ("* a", "<ul>\n<li>a</li>\n</ul>\n"), ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"),
        ("7. a\n8. b", '<ol start="7">\n<li>a</li>\n<li>b</li>\n</ol>\n'), ("1) a", "<ol>\n<li>a</li>\n</ol>\n"), ("-a", "<p>-a</p>\n"),
        ("- a\n\n- b", "<ul>\n<li><p>a</p>\n</li>\n<li><p>b</p>\n</li>\n</ul>\n"), ("- a\nb", "<ul>\n<li>a\nb</li>\n</ul>\n"),
        ("- a\n* b", "<ul>\n<li>a</li>\n</ul>\n<ul>\n<li>b</li>\n</ul>\n"), ("- a\n\nb", "<ul>\n<li>a</li>\n</ul>\n<p>b</p>\n"),
        ("- a\n    - b\n    - c\n- d", "<ul>\n<li>a\n<ul>\n<li>b</li>\n<li>c</li>\n</ul>\n</li>\n<li>d</li>\n</ul>\n"),
        ("1. a\n    - b", "<ol>\n<li>a\n<ul>\n<li>b</li>\n</ul>\n</li>\n</ol>\n"), ("- a\n\n    b", "<ul>\n<li><p>a</p>\n<p>b</p>\n</li>\n</ul>\n"),
        ("- a\n# b", '<ul>\n<li>a</li>\n</ul>\n<h1 id="b">b</h1>\n'), ("a\n- b", "<p>a</p>\n<ul>\n<li>b</li>\n</ul>\n"), ("-", "<ul>\n<li></li>\n</ul>\n"),
    ],
)
def test_lists(text, html):
    assert to_html(text) == html

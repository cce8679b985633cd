"""Hostile text is shown, never obeyed."""

import pytest

from soak.report import escape_markdown, escape_terminal, printable


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb", "a\\rb"),
        ("a\nb", "a\\nb"),
        ("\u202eevil", "\\u{202e}evil"),
        ("zero\u200bwidth", "zero\\u{200b}width"),
        ("\u2028", "\\u{2028}"),
        ("\ud800", "\\u{d800}"),
        ("日本語 é ☺", "日本語 é ☺"),
    ],
)
def test_controls_are_written_out(hostile: str, shown: str) -> None:
    """Escape sequences, line breaks, bidi and zero-width characters and surrogates become visible text."""
    assert escape_terminal(hostile) == shown


def test_lines_may_be_kept() -> None:
    """With keep_lines only the line break survives; a tab becomes spaces, a carriage return does not."""
    assert escape_terminal("a\tb\nc\rd", keep_lines=True) == "a    b\nc\\rd"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("<script>", "&#60;script&#62;"),
        ("[x](http://e.vil)", "\\[x\\](http&#58;//e.vil)"),
        ("![i](y)", "\\!\\[i\\](y)"),
        ("www.e.vil", "www&#46;e.vil"),
        ("@maintainer", "&#64;maintainer"),
        ("a | b", "a \\| b"),
        ("**b** _i_ `c`", "\\*\\*b\\*\\* \\_i\\_ \\`c\\`"),
        ("- item", "&#45; item"),
        ("---", "&#45;--"),
        ("1. item", "&#49;. item"),
        ("-0.80 (0.39: ok)", "-0.80 (0.39: ok)"),
        ("&amp;", "&#38;amp;"),
        ("two\nlines", "two\\\\nlines"),
    ],
)
def test_markdown_is_made_inert(hostile: str, shown: str) -> None:
    """Links, images, HTML, mentions, tables, emphasis and lists are shown as typed; plain numbers stay as they are."""
    assert escape_markdown(hostile) == shown


def test_printable_is_one_short_line() -> None:
    """A megabyte becomes one line of at most 400 characters."""
    line = printable("\x1b[31mé\n" * 200_000)
    assert len(line) == 400
    assert line.isprintable()

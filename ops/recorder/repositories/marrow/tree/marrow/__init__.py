"""Markdown to HTML, the part that we use."""

from marrow.blocks import parse
from marrow.html import render
from marrow.outline import outline

__all__ = ["outline", "parse", "render", "to_html"]


def to_html(text):
    """Return the HTML of a Markdown text."""
    return render(parse(text))

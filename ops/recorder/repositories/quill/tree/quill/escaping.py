"""Escaping for HTML, and text that is exempt from it."""

REPLACEMENTS = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))


class Safe(str):
    """Text that is printed as it is."""

    __slots__ = ()


def escape(value):
    """Return the text of a value, escaped for HTML unless it is Safe, as Safe."""
    if isinstance(value, Safe):
        return value
    text = str(value)
    for character, entity in REPLACEMENTS:
        text = text.replace(character, entity)
    return Safe(text)

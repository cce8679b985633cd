"""Markdown inside of a block to HTML: code, links, emphasis, escapes, line breaks."""

import re

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*([^()\s]+)(?:\s+\"([^\"]*)\")?\s*\)")
REFERENCE = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\[([^\[\]]*)\]")
AUTOLINK = re.compile(r"<((?:https?|mailto):[^\s<>]+)>")
EMPHASIS = (
    (re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*", re.DOTALL), "strong"),
    (re.compile(r"__(?=\S)(.+?)(?<=\S)__", re.DOTALL), "strong"),
    (re.compile(r"\*(?=\S)(.+?)(?<=\S)\*", re.DOTALL), "em"),
    (re.compile(r"_(?=\S)(.+?)(?<=\S)_", re.DOTALL), "em"),
)


def escape(text):
    """Return text with the characters that HTML reserves replaced."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


class Inline:
    """
    One text on its way to HTML.

    Finished pieces are put aside in a list and stand in the text as a private-use character and their number, so that no
    later step looks into them.
    """

    def __init__(self, links=None):
        self.links = links or {}
        self.pieces = []

    def render(self, text):
        """Return the HTML of a text."""
        text = CODE.sub(self._code, text)
        text = re.sub(r"\\([%s])" % re.escape(PUNCTUATION), lambda found: self._keep(escape(found[1])), text)
        text = AUTOLINK.sub(lambda found: self._keep(f'<a href="{escape(found[1])}">{escape(found[1])}</a>'), text)
        text = LINK.sub(self._link, text)
        text = REFERENCE.sub(self._reference, text)
        return self._restore(self._emphasis(escape(text)))

    def _keep(self, html):
        self.pieces.append(html)
        return f"\ue000{len(self.pieces) - 1}\ue001"

    def _restore(self, text):
        while "\ue000" in text:
            text = re.sub("\ue000(\\d+)\ue001", lambda found: self.pieces[int(found[1])], text)
        return text

    def _code(self, found):
        body = found[2].replace("\n", " ")
        if body.startswith(" ") and body.endswith(" ") and body.strip():
            body = body[1:-1]
        return self._keep(f"<code>{escape(body)}</code>")

    def _link(self, found):
        image, text, target, title = found.groups()
        return self._anchor(image, text, target, title)

    def _reference(self, found):
        text, label = found[1], found[2] or found[1]
        if label.casefold() not in self.links:
            return found[0]
        return self._anchor("", text, *self.links[label.casefold()])

    def _anchor(self, image, text, target, title):
        extra = f' title="{escape(title)}"' if title else ""
        if image:
            return self._keep(f'<img src="{escape(target)}" alt="{escape(text)}"{extra}>')
        return self._keep(f'<a href="{escape(target)}"{extra}>{self._emphasis(escape(text))}</a>')

    def _emphasis(self, html):
        for pattern, tag in EMPHASIS:
            html = pattern.sub(rf"<{tag}>\1</{tag}>", html)
        return re.sub(r"(?: {2,}|\\)\n", "<br>\n", html)

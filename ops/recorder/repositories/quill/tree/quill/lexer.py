"""Template text to tokens: text, print, tag. Comments and raw blocks are dealt with here."""

import re
from dataclasses import dataclass

from quill.errors import TemplateSyntaxError

OPEN = re.compile(r"(\{\{|\{%|\{#)(-?)")
CLOSE = {"{{": re.compile(r"(-?)\}\}"), "{%": re.compile(r"(-?)%\}"), "{#": re.compile(r"(-?)#\}")}
RAW = re.compile(r"\{%(-?)\s*endraw\s*(-?)%\}")


@dataclass
class Token:
    """kind is "text", "print" or "tag"; `line` is where it begins, counted from 1."""

    kind: str
    value: str
    line: int


class Lexer:
    """One template on its way to tokens."""

    def __init__(self, source, name):
        self.source, self.name = source, name
        self.position, self.line = 0, 1
        self.tokens = []
        self.trim_next = False

    def run(self):
        """Return the list of tokens."""
        while self.position < len(self.source):
            found = OPEN.search(self.source, self.position)
            if found is None:
                self._text(self.source[self.position :])
                break
            self._text(self.source[self.position : found.start()])
            if found[2]:
                self._trim_before()
            self._tag(found)
        return self.tokens

    def _text(self, text):
        """Add a piece of plain text and count its lines."""
        shown = text.lstrip() if self.trim_next else text
        self.trim_next = False
        if shown:
            self.tokens.append(Token("text", shown, self.line))
        self.line += text.count("\n")
        self.position += len(text)

    def _trim_before(self):
        """Remove the white space before a tag that opens with a hyphen."""
        for token in reversed(self.tokens):
            if token.kind == "text":
                token.value = token.value.rstrip()
                return

    def _tag(self, opened):
        """Add the tag whose opening delimiter was found."""
        start = self.line
        close = CLOSE[opened[1]].search(self.source, opened.end())
        if close is None:
            raise TemplateSyntaxError(f"{opened[1]} is never closed", self.name, start)
        content = self.source[opened.end() : close.start()]
        self.trim_next = bool(close[1])
        self.position = close.end()
        if opened[1] == "{#":
            return
        if opened[1] == "{%" and content.strip() == "raw":
            self._raw(start)
            return
        self.line += content.count("\n")
        self.tokens.append(Token("print" if opened[1] == "{{" else "tag", content.strip(), start))

    def _raw(self, start):
        """Add the text up to endraw as it is."""
        end = RAW.search(self.source, self.position)
        if end is None:
            raise TemplateSyntaxError("raw is never closed", self.name, start)
        text = self.source[self.position : end.start()]
        if self.trim_next:
            text = text.lstrip()
        if end[1]:
            text = text.rstrip()
        if text:
            self.tokens.append(Token("text", text, start))
        self.trim_next = bool(end[2])
        self.position = end.end()

"""Tokens to nodes."""

import re

from quill.errors import TemplateSyntaxError
from quill.expressions import Expression
from quill.lexer import Lexer
from quill.nodes import For, If, Include, Print, Set, Text

FOR = re.compile(r"for\s+([A-Za-z_]\w*)\s+in\s+(.+)", re.DOTALL)
SET = re.compile(r"set\s+([A-Za-z_]\w*)\s*=(?!=)\s*(.+)", re.DOTALL)


class Parser:
    """One template on its way to a tree."""

    def __init__(self, source, name, environment):
        self.name, self.environment = name, environment
        self.tokens = Lexer(source, name).run()
        self.at = 0

    def parse(self):
        """Return the nodes of the whole template."""
        nodes, end = self._block(())
        assert end is None
        return nodes

    def _block(self, ends, opened=None):
        """Return (nodes, token) up to a tag whose first word is one of `ends`; None at the end of the template."""
        nodes = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.kind == "text":
                nodes.append(Text(token.value))
            elif token.kind == "print":
                nodes.append(Print(self._expression(token.value, token)))
            elif _word(token) in ends:
                return nodes, token
            else:
                nodes.append(self._tag(token))
        if ends:
            self._fail(f"{_word(opened)} is never closed", opened)
        return nodes, None

    def _tag(self, token):
        word = _word(token)
        build = {"if": self._if, "for": self._for, "set": self._set, "include": self._include}.get(word)
        if build is None:
            self._fail(f"unexpected tag {word!r}", token)
        return build(token)

    def _if(self, opened):
        branches, token, word = [], opened, "if"
        while word != "endif":
            condition = None if word == "else" else self._expression(token.value[len(word) :], token)
            ends = ("endif",) if word == "else" else ("elif", "else", "endif")
            nodes, token = self._block(ends, opened)
            branches.append((condition, nodes))
            word = _word(token)
        return If(branches)

    def _for(self, opened):
        found = FOR.fullmatch(opened.value)
        if found is None:
            self._fail("for needs the form: for NAME in EXPRESSION", opened)
        nodes, token = self._block(("else", "endfor"), opened)
        otherwise = self._block(("endfor",), opened)[0] if _word(token) == "else" else []
        return For(found[1], self._expression(found[2], opened), nodes, otherwise)

    def _set(self, token):
        found = SET.fullmatch(token.value)
        if found is None:
            self._fail("set needs the form: set NAME = EXPRESSION", token)
        return Set(found[1], self._expression(found[2], token))

    def _include(self, token):
        return Include(self._expression(token.value[len("include") :], token), self.environment)

    def _expression(self, text, token):
        return Expression(text.strip(), self.name, token.line)

    def _fail(self, message, token):
        raise TemplateSyntaxError(message, self.name, token.line)


def _word(token):
    return token.value.split(None, 1)[0] if token.value else ""

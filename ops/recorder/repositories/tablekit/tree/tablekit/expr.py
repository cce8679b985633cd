"""
The language of `--where`.

    expression  := term (("and" | "or") term)*
    term        := "not" term | "(" expression ")" | comparison
    comparison  := column "is" ["not"] "missing" | column operator value
    operator    := "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"
    value       := number | 'text' | "text" | bare word

Names of columns that are not a plain word are written in backquotes.
"""

import datetime
import re
from dataclasses import dataclass
from typing import Any

from tablekit.errors import ExpressionError

TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?\d+(?:\.\d+)?(?![\w-]))
    | (?P<string>'[^']*'|"[^"]*")
    | (?P<quoted>`[^`]*`)
    | (?P<operator><=|>=|!=|=|<|>|~)
    | (?P<bracket>[()])
    | (?P<word>[\w.:-]+)
    )""",
    re.VERBOSE,
)

KEYWORDS = {"and", "or", "not", "is", "missing"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    position: int


@dataclass(frozen=True)
class Comparison:
    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Missing:
    column: str


@dataclass(frozen=True)
class Not:
    inner: Any


@dataclass(frozen=True)
class Both:
    left: Any
    right: Any


@dataclass(frozen=True)
class Either:
    left: Any
    right: Any


def tokenize(text):
    """Return the tokens of an expression, the last one of kind "end"."""
    tokens, position = [], 0
    while text[position:].strip():
        found = TOKEN.match(text, position)
        if found is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise ExpressionError(f"unexpected character {text[start]!r}", start, text)
        kind = found.lastgroup
        token = found[kind]
        if kind == "word" and token.lower() in KEYWORDS:
            kind, token = "keyword", token.lower()
        tokens.append(Token(kind, token, found.start(found.lastgroup)))
        position = found.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


class Parser:
    """One expression on its way from tokens to a tree."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0

    @property
    def token(self):
        return self.tokens[self.at]

    def next(self):
        token = self.token
        self.at += 1
        return token

    def accept(self, kind, *texts):
        """Take the next token if it is one of these, else return None."""
        if self.token.kind == kind and (not texts or self.token.text in texts):
            return self.next()
        return None

    def fail(self, wanted):
        token = self.token
        found = "the end" if token.kind == "end" else repr(token.text)
        raise ExpressionError(f"expected {wanted}, found {found}", token.position, self.text)

    def parse(self):
        tree = self.expression()
        if self.token.kind != "end":
            self.fail("and, or, or the end")
        return tree

    def expression(self):
        tree = self.term()
        while True:
            if self.accept("keyword", "and"):
                tree = Both(tree, self.term())
            elif self.accept("keyword", "or"):
                tree = Either(tree, self.term())
            else:
                return tree

    def term(self):
        if self.accept("keyword", "not"):
            return Not(self.term())
        if self.accept("bracket", "("):
            tree = self.expression()
            if not self.accept("bracket", ")"):
                self.fail("a closing bracket")
            return tree
        return self.comparison()

    def comparison(self):
        column = self.column()
        if self.accept("keyword", "is"):
            negated = self.accept("keyword", "not")
            if not self.accept("keyword", "missing"):
                self.fail("missing")
            return Not(Missing(column)) if negated else Missing(column)
        operator = self.accept("operator")
        if operator is None:
            self.fail("a comparison")
        return Comparison(column, operator.text, self.value())

    def column(self):
        token = self.accept("word") or self.accept("quoted")
        if token is None:
            self.fail("the name of a column")
        return token.text.strip("`")

    def value(self):
        token = self.accept("number") or self.accept("string") or self.accept("word")
        if token is None:
            self.fail("a value")
        if token.kind == "number":
            return float(token.text) if "." in token.text else int(token.text)
        return token.text[1:-1] if token.kind == "string" else token.text


def parse(text):
    """Return the tree of an expression; raises ExpressionError with the place."""
    return Parser(text).parse()


def columns_of(tree):
    """Return the names of the columns an expression looks at."""
    if isinstance(tree, (Comparison, Missing)):
        return {tree.column}
    if isinstance(tree, Not):
        return columns_of(tree.inner)
    return columns_of(tree.left) | columns_of(tree.right)


def evaluate(tree, row, kinds):
    """Whether the expression holds for a row (a dict of typed cells); `kinds` are the types of the columns."""
    if isinstance(tree, Both):
        return evaluate(tree.left, row, kinds) and evaluate(tree.right, row, kinds)
    if isinstance(tree, Either):
        return evaluate(tree.left, row, kinds) or evaluate(tree.right, row, kinds)
    if isinstance(tree, Not):
        return not evaluate(tree.inner, row, kinds)
    if isinstance(tree, Missing):
        return row[tree.column] is None
    return _compare(row[tree.column], tree.operator, tree.value, kinds[tree.column])


def _compare(cell, operator, value, kind):
    """Compare a cell with the value of an expression; a missing cell compares false."""
    if cell is None:
        return False
    if operator == "~":
        return str(value).casefold() in str(cell).casefold()
    value = _as_kind(value, kind)
    if value is None:
        return operator == "!="
    return {
        "=": cell == value,
        "!=": cell != value,
        "<": cell < value,
        "<=": cell <= value,
        ">": cell > value,
        ">=": cell >= value,
    }[operator]


def _as_kind(value, kind):
    """Return the value of an expression as the type of the column, or None where it cannot be that."""
    try:
        if kind in ("int", "float"):
            return value if isinstance(value, (int, float)) else float(value)
        if kind == "date":
            return datetime.date.fromisoformat(str(value))
    except ValueError:
        return None
    return str(value)

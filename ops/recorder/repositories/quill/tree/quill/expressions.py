"""
Expressions inside tags.

    expression := conjunction ("or" conjunction)*
    conjunction:= negation ("and" negation)*
    negation   := "not" negation | comparison
    comparison := filtered (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") filtered)?
    filtered   := primary ("|" name ("(" arguments ")")?)*
    primary    := number | string | name ("." name)* | "(" expression ")" | "true" | "false" | "none"
"""

import operator
import re

from quill.errors import TemplateError, TemplateSyntaxError
from quill.filters import FILTERS

TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?)|(?P<string>"[^"]*"|'[^']*')|(?P<name>[A-Za-z_]\w*)|(?P<symbol>==|!=|<=|>=|[<>|().,]))""",
    re.VERBOSE,
)
COMPARE = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
CONSTANTS = {"true": True, "false": False, "none": None}


class Missing:
    """The value of a name that does not exist: false, empty, printed as nothing."""

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __str__(self):
        return ""

    def __eq__(self, other):
        return isinstance(other, Missing)

    __hash__ = None


MISSING = Missing()


def lookup(value, key):
    """Return attribute, key or index `key` of a value, or MISSING."""
    try:
        return value[key]
    except (TypeError, KeyError, IndexError):
        pass
    if key.isdigit():
        try:
            return value[int(key)]
        except (TypeError, KeyError, IndexError):
            return MISSING
    return MISSING if key.startswith("_") else getattr(value, key, MISSING)


class Expression:
    """A parsed expression; `evaluate` gives its value with the variables of a scope."""

    def __init__(self, text, name, line):
        self.text, self.name, self.line = text, name, line
        self.tokens = self._tokenize()
        self.at = 0
        self.tree = self._or()
        if self.at < len(self.tokens):
            self._fail(f"unexpected {self.tokens[self.at][1]!r}")

    def evaluate(self, scope):
        """Return the value; errors of filters and comparisons name the place of the tag."""
        try:
            return self.tree(scope)
        except TemplateError:
            raise
        except Exception as problem:
            raise TemplateError(f"{self.text!r}: {problem}", self.name, self.line) from problem

    def _tokenize(self):
        tokens, position = [], 0
        while self.text[position:].strip():
            found = TOKEN.match(self.text, position)
            if found is None:
                self._fail(f"cannot read {self.text[position:].strip()[:20]!r}")
            tokens.append((found.lastgroup, found[found.lastgroup]))
            position = found.end()
        return tokens

    def _fail(self, message):
        raise TemplateSyntaxError(message, self.name, self.line)

    def _peek(self, *texts):
        return self.at < len(self.tokens) and self.tokens[self.at][1] in texts and self.tokens[self.at][0] != "string"

    def _take(self, *texts):
        if self._peek(*texts):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def _or(self):
        left = self._and()
        while self._take("or"):
            left = self._join(left, self._and(), lambda a, b, scope: a(scope) or b(scope))
        return left

    def _and(self):
        left = self._not()
        while self._take("and"):
            left = self._join(left, self._not(), lambda a, b, scope: a(scope) and b(scope))
        return left

    @staticmethod
    def _join(left, right, combine):
        return lambda scope: combine(left, right, scope)

    def _not(self):
        if self._take("not"):
            inner = self._not()
            return lambda scope: not inner(scope)
        return self._comparison()

    def _comparison(self):
        left = self._filtered()
        sign = self._take(*COMPARE, "in")
        if sign is None:
            return left
        right = self._filtered()
        if sign == "in":
            return lambda scope: left(scope) in right(scope)
        return lambda scope: COMPARE[sign](left(scope), right(scope))

    def _filtered(self):
        value = self._primary()
        while self._take("|"):
            value = self._filter(value)
        return value

    def _filter(self, value):
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            self._fail("a filter needs a name")
        name = self.tokens[self.at][1]
        self.at += 1
        if name not in FILTERS:
            self._fail(f"no filter {name!r}")
        arguments = self._arguments() if self._take("(") else []
        function = FILTERS[name]
        return lambda scope: function(value(scope), *(argument(scope) for argument in arguments))

    def _arguments(self):
        arguments = []
        while not self._take(")"):
            arguments.append(self._or())
            if not self._peek(")") and not self._take(","):
                self._fail("expected , or )")
        return arguments

    def _primary(self):
        if self.at >= len(self.tokens):
            self._fail("an expression is missing")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            number = float(text) if "." in text else int(text)
            return lambda scope: number
        if kind == "string":
            return lambda scope: text[1:-1]
        if kind == "name" and text in CONSTANTS:
            return lambda scope: CONSTANTS[text]
        if kind == "name":
            return self._path(text)
        if text == "(":
            inner = self._or()
            if not self._take(")"):
                self._fail("a closing bracket is missing")
            return inner
        return self._fail(f"unexpected {text!r}")

    def _path(self, first):
        keys = []
        while self._take("."):
            if self.at >= len(self.tokens) or self.tokens[self.at][0] not in ("name", "number"):
                self._fail("a name is missing after the dot")
            keys.append(self.tokens[self.at][1])
            self.at += 1

        def value(scope):
            found = scope.get(first, MISSING)
            for key in keys:
                found = lookup(found, key)
            return found

        return value

"""The tree of a template. Each node writes its output to a list and may read and set variables of a scope."""

from quill.errors import TemplateError
from quill.escaping import escape


class Text:
    def __init__(self, text):
        self.text = text

    def render(self, scope, out):
        out.append(self.text)


class Print:
    def __init__(self, expression):
        self.expression = expression

    def render(self, scope, out):
        value = self.expression.evaluate(scope)
        out.append("" if value is None else escape(value))


class If:
    """`branches` are (expression, nodes) pairs; the expression of `else` is None."""

    def __init__(self, branches):
        self.branches = branches

    def render(self, scope, out):
        for expression, nodes in self.branches:
            if expression is None or expression.evaluate(scope):
                for node in nodes:
                    node.render(scope, out)
                return


class Loop:
    """What `loop` is inside a for block."""

    def __init__(self, index, count):
        self.index, self.index0, self.length = index + 1, index, count
        self.first, self.last = index == 0, index == count - 1


class For:
    def __init__(self, target, expression, nodes, otherwise):
        self.target, self.expression, self.nodes, self.otherwise = target, expression, nodes, otherwise

    def render(self, scope, out):
        values = self.expression.evaluate(scope)
        try:
            values = list(values)
        except TypeError:
            raise TemplateError(f"cannot loop over {values!r}", self.expression.name, self.expression.line) from None
        if not values:
            for node in self.otherwise:
                node.render(scope, out)
        for index, value in enumerate(values):
            scope[self.target] = value
            scope["loop"] = Loop(index, len(values))
            for node in self.nodes:
                node.render(scope, out)


class Set:
    def __init__(self, target, expression):
        self.target, self.expression = target, expression

    def render(self, scope, out):
        scope[self.target] = self.expression.evaluate(scope)


class Include:
    def __init__(self, expression, environment):
        self.expression, self.environment = expression, environment

    def render(self, scope, out):
        name = self.expression.evaluate(scope)
        template = self.environment.get(name, self.expression)
        for node in template.nodes:
            node.render(scope, out)

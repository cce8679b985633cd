"""Errors with a place."""


class TemplateError(Exception):
    """Something is wrong in a template; `name` and `line` say where."""

    def __init__(self, message, name="<string>", line=None):
        place = name if line is None else f"{name}, line {line}"
        super().__init__(f"{place}: {message}")
        self.message, self.name, self.line = message, name, line


class TemplateSyntaxError(TemplateError):
    """The template cannot be read."""


class TemplateNotFound(TemplateError):
    """There is no template of that name."""

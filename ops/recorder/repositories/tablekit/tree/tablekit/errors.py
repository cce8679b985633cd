"""Errors that are shown to a person as one line."""


class TablekitError(Exception):
    """Anything a person can act on."""


class ReadError(TablekitError):
    """The input is not a table. `line` is the line of the input at which the bad row begins, counted from 1."""

    def __init__(self, message, line=None):
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class ExpressionError(TablekitError):
    """A `--where` expression is wrong. `position` is the offset of the offending token."""

    def __init__(self, message, position, text):
        pointer = " " * position + "^"
        super().__init__(f"{message}\n  {text}\n  {pointer}")
        self.position = position

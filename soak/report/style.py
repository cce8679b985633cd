"""Colour on a terminal, where it is wanted."""

_COLOURS = {
    "pass": "32",
    "fail": "31",
    "unknown": "33",
    "ok": "32",
    "garbage_loop": "31",
    "error": "31",
    "early_stop": "33",
    "max_tokens": "33",
    "improvement": "32",
    "regression": "31",
    "good": "32",
    "bad": "31",
    "undecided": "33",
    "untestable": "33",
}


class Style:
    """Wraps text in ANSI colours if `colour`, else returns it as it is."""

    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def bold(self, text: str) -> str:
        """Return a heading."""
        return self._wrap("1", text)

    def mark(self, text: str) -> str:
        """Return text that the eye should find."""
        return self._wrap("1;31", text)

    def verdict(self, verdict: str) -> str:
        """Return a verdict in capitals."""
        return self._wrap(f"1;{_COLOURS.get(verdict, '0')}", verdict.upper())

    def turn_class(self, name: str) -> str:
        """Return a class or a result of a comparison."""
        return self._wrap(_COLOURS[name], name) if name in _COLOURS else name

"""The one exception of this library."""


class SpansError(ValueError):
    """A text or a combination of values that makes no sense; the message says which."""

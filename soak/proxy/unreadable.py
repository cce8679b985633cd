"""The one error of reading requests; it never leaves the room."""


class UnreadableAskError(Exception):
    """A request that cannot be read as one turn; its words say why."""

"""Notices a barren pass: the corpus was gone through once and not one turn could be sent."""

from soak.plan import Conversation


class PassWatch:
    """
    Counts open conversations and sent turns of each pass, so that an endless plan of skipped turns ends.

    `numbers`: how many pass numbers one pass takes (siblings on one prefix have their own).
    """

    def __init__(self, numbers: int = 1) -> None:
        self._numbers = numbers
        self._open: dict[int, int] = {}
        self._sent: set[int] = set()
        self._newest = 0

    def begin(self, conversation: Conversation) -> None:
        """A conversation was handed out."""
        self._newest = max(self._newest, conversation.trip)
        self._open[conversation.trip] = self._open.get(conversation.trip, 0) + 1

    def sent(self, pass_: int) -> None:
        """A turn with this pass number reached the server."""
        self._sent.add(pass_ // self._numbers)

    def end(self, conversation: Conversation) -> None:
        """A conversation came to its end."""
        self._open[conversation.trip] -= 1

    @property
    def barren(self) -> bool:
        """Whether a pass is over, the next has begun, and nothing of it was sent."""
        return any(
            not still_open and pass_ < self._newest and pass_ not in self._sent
            for pass_, still_open in self._open.items()
        )

"""When a loop in mid-stream is certain enough to say so, and to close the stream."""

from soak.classify.explain import LIVE_SCAN_CHARS, Explanation
from soak.classify.pieces import Pieces
from soak.classify.settings import Settings
from soak.classify.stream import Stream
from soak.classify.texture import texture
from soak.classify.tracker import Loop, Tracker
from soak.facts import Signal, clean

_UNIT_CHARS = 80


class _Waiting:
    """A loop that the stream noticed and nobody was told of; `need` is the evidence at which it is weighed."""

    __slots__ = ("channel", "loop", "need", "tracker")

    def __init__(self, channel: str | int, tracker: Tracker, loop: Loop) -> None:
        self.channel = channel
        self.tracker = tracker
        self.loop = loop
        self.need = 1.0


class Guard:
    """
    Turns what the trackers notice into signals: at most one per loop, and none for explained repetition.

    A loop is weighed once or twice, in some milliseconds, whatever the length of the prompt.
    """

    def __init__(self, stream: Stream, explanation: Explanation, settings: Settings) -> None:
        self._stream = stream
        self._explanation = explanation
        self._settings = settings
        self._judged: dict[str | int, int] = {}
        self._waiting: _Waiting | None = None

    def look(self) -> Signal | None:
        """Return a signal if a loop became certain since the last look."""
        for channel, tracker in self._stream.trackers():
            name = "ids" if self._stream.on_ids else channel
            count = len(tracker.loops)
            if count > self._judged.get(name, 0):
                self._judged[name] = count
                self._waiting = _Waiting(channel, tracker, tracker.loops[-1])
        return None if self._waiting is None else self._weigh(self._waiting)

    def _weigh(self, waiting: _Waiting) -> Signal | None:
        """Say so, wait for the greater evidence that data needs, or drop a loop that ended or is explained."""
        evidence = waiting.tracker.evidence
        if evidence < 1:
            self._waiting = None
        if evidence < waiting.need:
            return None
        tail = self._stream.tail(waiting.channel)
        made_of = texture(tail)
        data = made_of.kind in ("numbers", "symbols") or (made_of.kind == "words" and made_of.rows)
        if data and evidence < self._settings.certain_data_factor:
            waiting.need = self._settings.certain_data_factor
            return None
        self._waiting = None
        pieces = Pieces(tail)
        paid = self._explanation.paid_share(pieces, 0, len(pieces), masked=False, scan_chars=LIVE_SCAN_CHARS)
        return None if paid >= self._settings.explained_share else _signal(waiting, tail)


def _signal(waiting: _Waiting, tail: str) -> Signal:
    loop = waiting.loop
    period = f" with a period of {loop.lag}" if loop.lag else ""
    excerpt = clean(tail[-_UNIT_CHARS:])
    return Signal(
        kind="exact_loop" if loop.lag else "redundant_loop",
        at_token=waiting.tracker.seen,
        certain=True,
        text=f"a loop since token {loop.onset}{period}: …{excerpt!r}",
    )

"""When a loop in mid-stream is certain enough to say so, and to close the stream."""

from soak.classify.explain import Explanation
from soak.classify.pieces import Pieces
from soak.classify.settings import Settings
from soak.classify.stream import Stream
from soak.classify.texture import texture
from soak.classify.tracker import Loop, Tracker
from soak.facts import Signal, clean

_UNIT_CHARS = 80


class Guard:
    """Turns what the trackers notice into signals: at most one per loop, and none for explained repetition."""

    def __init__(self, stream: Stream, explanation: Explanation, settings: Settings) -> None:
        self._stream = stream
        self._explanation = explanation
        self._settings = settings
        self._judged: dict[int, int] = {}
        self._waiting: tuple[str | int, Tracker, Loop] | None = None

    def look(self) -> Signal | None:
        """Return a signal if a loop became certain since the last look."""
        for channel, tracker in self._stream.trackers():
            count = len(tracker.loops)
            if count > self._judged.get(id(tracker), 0):
                self._judged[id(tracker)] = count
                self._waiting = (channel, tracker, tracker.loops[-1])
        return self._weigh() if self._waiting is not None else None

    def _weigh(self) -> Signal | None:
        """Say so, wait for the greater evidence that data needs, or drop a loop that ended or is explained."""
        if self._waiting is None:
            return None
        channel, tracker, loop = self._waiting
        if tracker.evidence < 1:
            self._waiting = None
            return None
        tail = self._stream.texts[channel].tail() if channel in self._stream.texts else ""
        made_of = texture(tail)
        data = made_of.kind in ("numbers", "symbols") or (made_of.kind == "words" and made_of.rows)
        if data and tracker.evidence < self._settings.certain_data_factor:
            return None
        self._waiting = None
        pieces = Pieces(tail)
        if self._explanation.paid_share(pieces, 0, len(pieces), masked=False) >= self._settings.explained_share:
            return None
        return _signal(tracker, loop, tail)


def _signal(tracker: Tracker, loop: Loop, tail: str) -> Signal:
    period = f" with a period of {loop.lag}" if loop.lag else ""
    excerpt = clean(tail[-_UNIT_CHARS:])
    return Signal(
        kind="exact_loop" if loop.lag else "redundant_loop",
        at_token=tracker.seen,
        certain=True,
        text=f"a loop since token {loop.onset}{period}: …{excerpt!r}",
    )

"""The live state of one answer: trackers over its token ids, or over the pieces of each of its texts."""

from collections.abc import Iterator

from soak.classify.pieces import Splitter
from soak.classify.settings import Settings
from soak.classify.tracker import Loop, Tracker
from soak.facts import Chunk, Observation, ToolCallDelta
from soak.facts.finding import Where

_BLOCK_TOKENS = 32
_BLOCK_CHARS = 96
_PORTION = 4096
_PORTION_CHARS = 1 << 14
_MAX_CHANNELS = 34
_TAIL_CHARS = 4096
_NAMED = ("content", "reasoning")
_CALLS = "tool_arguments"


class TextTrack:
    """One text of the answer: its length, its last few thousand characters, and (without ids) its tracker."""

    __slots__ = ("_parts", "_settings", "_splitter", "_waiting", "_waiting_chars", "length", "tracker")

    def __init__(self, settings: Settings) -> None:
        self.length = 0
        self.tracker: Tracker | None = None
        self._settings = settings
        self._splitter = Splitter()
        self._parts: list[str] = []
        self._waiting: list[str] = []
        self._waiting_chars = 0

    def add(self, text: str) -> None:
        """Take text that ids stand for: only remember its end."""
        self.length += len(text)
        self._parts.append(text if len(text) <= _TAIL_CHARS else text[-_TAIL_CHARS:])
        if len(self._parts) >= 512:
            self._parts = [self.tail()]

    def track(self, text: str) -> None:
        """Take text that no ids stand for: cut it into pieces and look for loops among them."""
        self.add(text)
        self._waiting.append(text)
        self._waiting_chars += len(text)
        if self._waiting_chars >= _BLOCK_CHARS:
            self._cut()

    def finish(self) -> None:
        """Look at what was held back."""
        if self.tracker is not None or self._waiting:
            self._cut()
            self._feed(self._splitter.finish())

    def tail(self) -> str:
        """Return the last characters, at most 4096."""
        return "".join(self._parts)[-_TAIL_CHARS:]

    def _cut(self) -> None:
        text = "".join(self._waiting)
        self._waiting, self._waiting_chars = [], 0
        for at in range(0, len(text), _PORTION_CHARS):
            self._feed(self._splitter.push(text[at : at + _PORTION_CHARS]))

    def _feed(self, codes: list[int]) -> None:
        if self.tracker is None:
            self.tracker = Tracker(self._settings)
        for at in range(0, len(codes), _PORTION):
            self.tracker.feed(codes[at : at + _PORTION])


class Stream:
    """
    All that is kept of an answer while it arrives: bounded memory, whatever its length.

    On token ids as long as every chunk with text carries them, else on text. Channels are `content`, `reasoning` and
    one number per tool call (the first 32).
    """

    def __init__(self, settings: Settings) -> None:
        self.on_ids = True
        self.texts: dict[str | int, TextTrack] = {}
        self.last: str | int = "content"
        self._settings = settings
        self._ids = Tracker(settings)
        self._pending: list[int] = []
        self._id_count = 0

    def push(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        if chunk.token_ids:
            if self.on_ids:
                self._id_count += len(chunk.token_ids)
                self._pending += chunk.token_ids
                if len(self._pending) >= _BLOCK_TOKENS:
                    self._feed_ids()
        elif self.on_ids and chunk.has_text:
            self.on_ids = False
        if chunk.content:
            self._text("content", chunk.content)
        if chunk.reasoning:
            self._text("reasoning", chunk.reasoning)
        for delta in chunk.tool_calls:
            if delta.arguments:
                self._text(delta.index, delta.arguments)

    def finish(self) -> None:
        """Look at what was held back for a full block."""
        self._feed_ids()
        for track in self.texts.values():
            track.finish()

    def trackers(self) -> Iterator[tuple[str | int, Tracker]]:
        """Yield each tracker in use with its channel; the one on ids speaks for the channel that grew last."""
        if self.on_ids:
            yield self.last, self._ids
            return
        for channel, track in self.texts.items():
            if track.tracker is not None:
                yield channel, track.tracker

    def noticed(self, where: Where) -> list[Loop]:
        """Return the loops noticed in a text of the answer; on ids: in the whole answer."""
        if self.on_ids:
            return self._ids.loops
        tracks = [
            track
            for channel, track in self.texts.items()
            if channel == where or (where == _CALLS and channel not in _NAMED)
        ]
        return [loop for track in tracks if track.tracker is not None for loop in track.tracker.loops]

    def covers(self, observation: Observation) -> bool:
        """Whether what was pushed is, by its lengths, the answer that was stored."""
        ids = observation.token_ids
        if self.on_ids != (ids is not None) and (
            observation.content or observation.reasoning or observation.tool_calls
        ):
            return False
        if self.on_ids and self._id_count != len(ids or ()):
            return False
        stored: dict[str | int, int] = {"content": len(observation.content), "reasoning": len(observation.reasoning)}
        stored |= {at: len(call.arguments) for at, call in enumerate(observation.tool_calls[:_MAX_CHANNELS])}
        return all(length == (self.texts[name].length if name in self.texts else 0) for name, length in stored.items())

    def _text(self, channel: str | int, text: str) -> None:
        track = self.texts.get(channel)
        if track is None:
            if len(self.texts) >= _MAX_CHANNELS:
                return
            track = self.texts[channel] = TextTrack(self._settings)
        self.last = channel
        if self.on_ids:
            track.add(text)
        else:
            track.track(text)

    def _feed_ids(self) -> None:
        pending, self._pending = self._pending, []
        for at in range(0, len(pending), _PORTION):
            self._ids.feed(pending[at : at + _PORTION])


def chunks_of(observation: Observation) -> Iterator[Chunk]:
    """Yield a stored answer as chunks, in the order reasoning, content, calls; its ids come with the first ones."""
    ids = observation.token_ids
    deltas = tuple(
        ToolCallDelta(index=at, name=call.name, arguments=call.arguments)
        for at, call in enumerate(observation.tool_calls)
    )
    if ids is None:
        yield Chunk(reasoning=observation.reasoning)
        yield Chunk(content=observation.content)
        yield Chunk(tool_calls=deltas)
        return
    yield Chunk(
        reasoning=observation.reasoning, content=observation.content, tool_calls=deltas, token_ids=ids[:_PORTION]
    )
    for at in range(_PORTION, len(ids), _PORTION):
        yield Chunk(token_ids=ids[at : at + _PORTION])

"""The live state of one answer: trackers over its token ids, or over the pieces of each of its texts."""

from collections.abc import Iterator, Sequence
from math import inf

from soak.classify.pieces import Cuts, Splitter, distances
from soak.classify.settings import DEFAULTS, Settings
from soak.classify.tracker import PIECE_GRAM, TOKEN_MASK, Loop, Tracker, may_notice
from soak.facts import Chunk, Observation
from soak.facts.finding import Where

# Chunks are held until they weigh so much, since looking at each costs more than the look: 12 for a token id; without
# ids 8 for the chunk and 1 for each character. It makes 32 tokens.
_BLOCK_WEIGHT = 384
# While hardly anything repeats (evidence below this share of what makes a loop certain), three times as much is held: a
# loop that begins meanwhile is not certain before the small blocks are back.
_CALM_EVIDENCE = 0.05
_CALM_BLOCKS = 3
# However little they weigh, chunks are held no longer than this: a slow server must not delay what a person is told.
HELD_S = 0.5
_PORTION = 4096
_PORTION_CHARS = 1 << 14
_MAX_CALLS = 32
# The arguments of a call are watched for this part of what other texts are.
_CALL_PART = 10
_TAIL_CHARS = 4096
_MAX_PARTS = 512


class TextTrack:
    """One text of the answer: its length, its last few thousand characters, and (without ids) its tracker."""

    __slots__ = ("_left", "_parts", "_settings", "_splitter", "length", "tracker")

    def __init__(self, settings: Settings, watched_chars: int) -> None:
        self.length = 0
        self.tracker: Tracker | None = None
        self._left = watched_chars
        self._settings = settings
        self._splitter = Splitter()
        self._parts: list[str] = []

    def add(self, text: str) -> None:
        """Take text that ids stand for: only remember its end."""
        self.length += len(text)
        self._parts.append(text if len(text) <= _TAIL_CHARS else text[-_TAIL_CHARS:])
        if len(self._parts) >= _MAX_PARTS:
            self._parts = [self.tail()]

    def track(self, text: str) -> None:
        """Take text that no ids stand for: cut it into pieces and look for loops among them."""
        self.add(text)
        if len(text) <= min(self._left, _PORTION_CHARS):
            self._left -= len(text)
            self._feed(self._splitter.push(text))
            return
        watched = text[: self._left]
        self._left -= len(watched)
        for at in range(0, len(watched), _PORTION_CHARS):
            self._feed(self._splitter.push(watched[at : at + _PORTION_CHARS]))

    def finish(self) -> None:
        """Look at what was held back."""
        self._feed(self._splitter.finish())

    def read(self, text: str, cuts: Cuts) -> None:
        """Take a whole stored text, to the same end as `track` and `finish`; what cannot loop is skipped."""
        if len(text) > self._settings.max_chars:
            self.track(text)
            return
        self.length = len(text)
        tokens = cuts.of(text[: self._left]).tokens()
        if may_notice(distances(tokens, PIECE_GRAM), self._settings):
            self._feed(tokens.tolist())

    def tail(self) -> str:
        """Return the last characters, at most 4096."""
        return "".join(self._parts)[-_TAIL_CHARS:]

    def _feed(self, codes: list[int]) -> None:
        if not codes:
            return
        if self.tracker is None:
            self.tracker = Tracker(self._settings, PIECE_GRAM)
        _feed(self.tracker, codes)


class Stream:
    """
    All that is kept of an answer while it arrives: bounded memory, whatever its length.

    On token ids as long as every chunk with text carries them, else on text. Channels are `content`, `reasoning` and
    one number per tool call (the first 32). An answer beyond every limit (`watched_chars` of `Settings`) is watched no
    further.
    """

    def __init__(self, settings: Settings) -> None:
        self.on_ids = True
        self.texts: dict[str | int, TextTrack] = {}
        self._settings = settings
        self._last: str | int = "content"
        self._ids = Tracker(settings)
        self._id_count = 0
        self._held: list[Chunk] = []
        self._content: list[str] = []
        self._weight = 0
        bar = min(settings.certain_run_tokens, settings.certain_redundant_tokens)
        self._calm_weight = _BLOCK_WEIGHT * (_CALM_BLOCKS if bar >= DEFAULTS.certain_run_tokens else 1)
        self._block_weight = self._calm_weight
        self._due = -inf

    def push(self, chunk: Chunk, at: float = -inf) -> bool:
        """
        Take the next chunk, read at `at` (seconds of any clock); return whether the trackers have moved on.

        They do so in blocks of some chunks, and with a clock at the latest with the first chunk after `HELD_S`.
        """
        ids, content = chunk.token_ids, chunk.content
        if self.on_ids:
            self._held.append(chunk)
        else:
            # Nine of ten chunks are content and nothing else: a string is all there is to keep of them.
            if content:
                self._content.append(content)
            if chunk.reasoning or chunk.tool_calls or ids:
                self._held.append(chunk)
        self._weight = weight = self._weight + (12 * len(ids) if ids else 8 + len(content or chunk.reasoning))
        if weight < self._block_weight and at <= self._due:
            return False
        self._take()
        self._due = at + HELD_S
        calm = all(tracker.evidence < _CALM_EVIDENCE for _, tracker in self.trackers())
        self._block_weight = self._calm_weight if calm else _BLOCK_WEIGHT
        return True

    @classmethod
    def of(cls, observation: Observation, cuts: Cuts, settings: Settings) -> "Stream":
        """Return the state after a stored answer, to the same end as if it had been pushed and finished."""
        stream = cls(settings)
        texts = stored_texts(observation)
        stream.on_ids = cuts.ids is not None or not texts
        for name, text in texts.items():
            track = stream._track(name)
            if track is not None and stream.on_ids:
                track.add(text)
            elif track is not None:
                track.read(text, cuts)
        ids = observation.token_ids or ()
        stream._id_count = len(ids)
        whole = cuts.first == 0 and max(ids, default=0) <= TOKEN_MASK
        if ids and not (whole and not may_notice(cuts.ids_back, settings)):
            _feed(stream._ids, ids[: int(settings.watched_tokens)])
        stream.finish()
        return stream

    def finish(self) -> None:
        """Look at what was held back for a full block."""
        self._take()
        for track in self.texts.values():
            track.finish()
        # However the texts were interleaved, calls come last in the stored answer.
        calls = [name for name in self.texts if isinstance(name, int)]
        self._last = max(calls) if calls else "content" if "content" in self.texts else self._last

    def trackers(self) -> Iterator[tuple[str | int, Tracker]]:
        """Yield each tracker in use with its channel; the one on ids speaks for the channel that grew last."""
        if self.on_ids:
            yield self._last, self._ids
            return
        for channel, track in self.texts.items():
            if track.tracker is not None:
                yield channel, track.tracker

    def noticed(self, where: Where) -> list[Loop]:
        """Return the loops noticed in a text of the answer; on ids: in the whole answer."""
        if self.on_ids:
            return self._ids.loops
        return [loop for channel, tracker in self.trackers() if where_of(channel) == where for loop in tracker.loops]

    def tail(self, channel: str | int) -> str:
        """Return the last characters of a text, at most 4096."""
        return self.texts[channel].tail() if channel in self.texts else ""

    def covers(self, observation: Observation) -> bool:
        """Whether what was pushed is, by its lengths, the answer that was stored."""
        ids = observation.token_ids
        texts = stored_texts(observation)
        if texts and self.on_ids != (ids is not None):
            return False
        if self._id_count != len(ids or ()):
            return False
        return {name: len(text) for name, text in texts.items()} == {
            name: track.length for name, track in self.texts.items()
        }

    def _take(self) -> None:
        """Give the held chunks to the trackers: their ids as one portion, their texts as one string a channel."""
        held, self._held, self._weight = self._held, [], 0
        if not self.on_ids:
            content, self._content = self._content, []
            self._give([one for chunk in held for one in chunk.token_ids], content, held)
            return
        ids: list[int] = []
        content = []
        others: list[Chunk] = []
        for chunk in held:
            if chunk.token_ids:
                ids += chunk.token_ids
            elif self.on_ids and chunk.has_text:
                self._give(ids, content, others)
                self.on_ids, ids, content, others = False, [], [], []
            if chunk.content:
                content.append(chunk.content)
            if chunk.reasoning or chunk.tool_calls:
                others.append(chunk)
        self._give(ids, content, others)

    def _give(self, ids: list[int], content: list[str], others: list[Chunk]) -> None:
        left = int(self._settings.watched_tokens) - self._id_count
        self._id_count += len(ids)
        if self.on_ids and left > 0:
            _feed(self._ids, ids[:left])
        parts: dict[str | int, list[str]] = {"content": content} if content else {}
        for chunk in others:
            if chunk.reasoning:
                parts.setdefault("reasoning", []).append(chunk.reasoning)
            for delta in chunk.tool_calls:
                if delta.arguments:
                    parts.setdefault(delta.index, []).append(delta.arguments)
        for channel, texts in parts.items():
            track = self._track(channel)
            if track is not None:
                (track.add if self.on_ids else track.track)("".join(texts))

    def _track(self, channel: str | int) -> TextTrack | None:
        if isinstance(channel, int) and not 0 <= channel < _MAX_CALLS:
            return None
        self._last = channel
        track = self.texts.get(channel)
        if track is None:
            watched = int(self._settings.watched_chars) // (_CALL_PART if isinstance(channel, int) else 1)
            track = self.texts[channel] = TextTrack(self._settings, watched)
        return track


def _feed(tracker: Tracker, codes: Sequence[int]) -> None:
    if len(codes) <= _PORTION:
        tracker.feed(codes)
        return
    for at in range(0, len(codes), _PORTION):
        tracker.feed(codes[at : at + _PORTION])


def where_of(channel: str | int) -> Where:
    """Return in which part of the answer a channel lies."""
    return "tool_arguments" if isinstance(channel, int) else "reasoning" if channel == "reasoning" else "content"


def stored_texts(observation: Observation) -> dict[str | int, str]:
    """Return the texts of a stored answer by channel, empty ones left out."""
    texts: dict[str | int, str] = {"reasoning": observation.reasoning, "content": observation.content}
    texts |= {at: call.arguments for at, call in enumerate(observation.tool_calls[:_MAX_CALLS])}
    return {name: text for name, text in texts.items() if text}

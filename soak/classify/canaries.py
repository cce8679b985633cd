"""
Secret words in an answer: another conversation's is contamination, and certain; its own is what was asked for, or not.

All words begin with one head that stands in no text, so that a text is searched for the head alone, by one path while
it streams and when it is stored: at most 15 characters are kept between two pieces. A word that the end of the answer
cuts short is not found.
"""

from collections.abc import Iterator
from typing import NamedTuple

from soak.classify.stream import stored_texts
from soak.facts import WORD_CHARS, WORD_HEAD, WORD_LETTERS, Canary, Chunk, Finding, Observation, Signal
from soak.facts.finding import Where

_SHOWN_MAX = 4
_AROUND_CHARS = 80
_CALLS_MAX = 32


class WordWatch:
    """Finds words in a text that comes in pieces, however they are cut."""

    __slots__ = ("_seen", "_tail")

    def __init__(self) -> None:
        self._tail = ""
        self._seen = 0

    def push(self, text: str) -> list[tuple[int, str]]:
        """Take the next piece; return the place (in characters) and the letters of each word that it completes."""
        text, begin = self._tail + text, self._seen - len(self._tail)
        self._seen = begin + len(text)
        found = []
        at = text.find(WORD_HEAD)
        while 0 <= at <= len(text) - WORD_CHARS:
            word = text[at : at + WORD_CHARS]
            if WORD_LETTERS.issuperset(word[len(WORD_HEAD) :]):
                found.append((begin + at, word))
            at = text.find(WORD_HEAD, at + 1)
        self._tail = text[at:] if at >= 0 else text[1 - len(WORD_HEAD) :]
        return found


class LiveWords:
    """Watches one answer while it streams, and says once that another conversation's word has come."""

    def __init__(self, canary: Canary) -> None:
        self._canary = canary
        self._texts: dict[str | int, WordWatch] = {}
        self._chunks = 0
        self._told = False

    def push(self, chunk: Chunk) -> Signal | None:
        """Take the next chunk; return a signal at the first foreign word."""
        self._chunks += len(chunk.token_ids) or 1
        for name, text in _pieces(chunk):
            for _, word in self._texts.setdefault(name, WordWatch()).push(text):
                if not self._told and (owner := _owner(word, self._canary)) is not None:
                    self._told = True
                    return Signal(
                        kind="contamination", at_token=self._chunks, certain=False, text=_foreign(word, owner)
                    )
        return None


class WordFindings(NamedTuple):
    """What an answer's words come to: faults, which decide its class, and notes, which do not."""

    faults: list[Finding]
    notes: list[Finding]


def word_findings(observation: Observation, canary: Canary | None) -> WordFindings:
    """Return a fault `contamination` for each foreign word, and notes on the conversation's own."""
    if canary is None:
        return WordFindings([], [])
    faults: dict[str, Finding] = {}
    notes: list[Finding] = []
    own = False
    for where, at, word, text in _words(observation):
        owner = _owner(word, canary)
        if owner is not None:
            faults.setdefault(word, _finding("contamination", where, at, text, _foreign(word, owner)))
        elif word == canary.word:
            own = True
        elif not notes:
            said = f"{word!r} looks like a secret word and is nobody's"
            notes.append(_finding("canary_garbled", where, at, text, said))
    if canary.asked:
        kind, said = ("canary_recalled", "said") if own else ("canary_lost", "did not say")
        notes.append(Finding(kind=kind, text=f"asked for its secret word, the answer {said} it"))
    return WordFindings(list(faults.values())[:_SHOWN_MAX], notes)


def _words(observation: Observation) -> Iterator[tuple[Where, int, str, str]]:
    for name, text in stored_texts(observation).items():
        where: Where = "tool_arguments" if isinstance(name, int) else "reasoning" if name == "reasoning" else "content"
        for at, word in WordWatch().push(text):
            yield where, at, word, text


def _pieces(chunk: Chunk) -> Iterator[tuple[str | int, str]]:
    if chunk.content:
        yield "content", chunk.content
    if chunk.reasoning:
        yield "reasoning", chunk.reasoning
    for call in chunk.tool_calls:
        if call.arguments and 0 <= call.index < _CALLS_MAX:
            yield call.index, call.arguments


def _owner(word: str, canary: Canary) -> str | None:
    """Return the other conversation whose word it is."""
    return None if word == canary.word else canary.owners.get(word)


def _foreign(word: str, owner: str) -> str:
    return f"the answer holds {word!r}, the secret word of another conversation ({owner})"


def _finding(kind: str, where: Where, at: int, text: str, said: str) -> Finding:
    excerpt = text[max(0, at - _AROUND_CHARS) : at + WORD_CHARS + _AROUND_CHARS]
    covered = WORD_CHARS / max(1, len(text))
    return Finding(kind=kind, where=where, onset_char=at, unit=excerpt, covered=covered, confidence=1.0, text=said)

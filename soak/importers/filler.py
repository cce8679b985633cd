"""
Text to stand in where a trace has lengths and hashes only, taken from the bundled corpus of agent conversations.

Acceptance of drafts depends on the text, so random words will not do. The same key gives the same text, always: the
text is where a hash of the key points in the corpus.
"""

from functools import cache
from hashlib import blake2b

from soak.facts import text_of
from soak.facts.episode import CHARACTERS_PER_TOKEN
from soak.importers.corpus import Corpus, load_corpus
from soak.importers.finding import find_corpus

BUNDLED = "swe_agent"
_CHARACTERS_MIN = 2_000


class Filler:
    """Gives a stretch of text of any length for any key."""

    def __init__(self, corpus: Corpus) -> None:
        pieces: dict[str, None] = {}
        for episode in corpus.episodes:
            for node in episode.nodes:
                message = node.message
                for piece in (text_of(message.content), *(call.arguments for call in message.tool_calls)):
                    pieces.setdefault(piece)
        text = "\n".join(pieces)
        self._text = text * (1 + _CHARACTERS_MIN // max(len(text), 1)) or "…" * _CHARACTERS_MIN

    def tokens(self, key: str, count: int) -> str:
        """Return about `count` tokens of text for `key`, four characters a token."""
        wanted = count * CHARACTERS_PER_TOKEN
        at = int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % len(self._text)
        found = self._text[at : at + wanted]
        while len(found) < wanted:
            found += self._text[: wanted - len(found)]
        return found


@cache
def bundled_filler() -> Filler:
    """Return a filler over the bundled corpus; raises `CorpusError` where it is missing."""
    return Filler(load_corpus(find_corpus(BUNDLED)))

"""
Secret words: each conversation is told one of its own, so that an answer which holds another's is proof.

A word is a head that stands in no language, and six syllables from the run's seed: whoever looks for words looks for
the head alone. The word is part of the prefix, which is therefore not that of a run without words.
"""

from collections.abc import Mapping

import msgspec

WORD_HEAD = "qzvx"
WORD_CHARS = 16
SYLLABLE_CONSONANTS = "bdfgklmnprstvz"
SYLLABLE_VOWELS = "aeiou"
WORD_LETTERS = frozenset(SYLLABLE_CONSONANTS + SYLLABLE_VOWELS)

RECALL_QUESTION = "What is the secret word of this conversation? Answer with the word and nothing else."


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is known of words when one answer is judged.

    `word` is the conversation's own; `owners` names the conversation (as `episode:pass`) of every word told so far, and
    grows while the run does. `asked`: this turn asks for the word.
    """

    word: str
    owners: Mapping[str, str]
    asked: bool = False


def told(word: str) -> str:
    """Return the sentence that tells a conversation its word."""
    return f"\n\nThe secret word of this conversation is {word}. Do not say it unless you are asked for it."

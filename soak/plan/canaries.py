"""Secret words: which conversation is told which, and which episodes end in a turn that asks for it."""

import msgspec

from soak.facts import RECALL_QUESTION, WORD_HEAD, Episode, Message, Node, Turn, digest_of
from soak.facts.canary import SYLLABLE_CONSONANTS, SYLLABLE_VOWELS
from soak.plan.seeds import chance

RECALL_SHARE = 0.5
"""Of the episodes: enough for a rate, and not a turn more in each."""

_SYLLABLES = tuple(consonant + vowel for consonant in SYLLABLE_CONSONANTS for vowel in SYLLABLE_VOWELS)


def word_for(seed: int, episode: str, pass_: int) -> str:
    """Return the secret word of a conversation, the same for every arm: 70⁶ there are."""
    parts = (_SYLLABLES[int(chance("word", seed, episode, pass_, i) * len(_SYLLABLES))] for i in range(6))
    return WORD_HEAD + "".join(parts)


def with_recall(episode: Episode, seed: int) -> Episode:
    """Return the episode, for a seeded half of them with a last turn that asks for the secret word."""
    if not episode.turns or chance("recall", seed, episode.id) >= RECALL_SHARE:
        return episode
    last = episode.turns[-1]
    after = last.prefix if last.answer is None else last.answer
    question = Message(role="user", content=RECALL_QUESTION)
    node = Node(message=question, parent=after, digest=digest_of(question, episode.nodes[after].digest))
    asking = Turn(index=len(episode.turns), prefix=len(episode.nodes))
    return msgspec.structs.replace(episode, nodes=(*episode.nodes, node), turns=(*episode.turns, asking))


def asks_for_word(episode: Episode, turn: Turn) -> bool:
    """Whether this turn is the one that `with_recall` added."""
    node = episode.nodes[turn.prefix]
    return turn.answer is None and node.message.role == "user" and node.message.content == RECALL_QUESTION

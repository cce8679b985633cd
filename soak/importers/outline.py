"""Episodes and corpora in numbers, for `soak corpus list` and `soak corpus show`."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from soak.facts import CorpusCard, Episode, characters, depths, estimate_tokens

_DEEP_TURNS = 30


class EpisodeOutline(msgspec.Struct, frozen=True, kw_only=True):
    """
    One episode: counts over its messages, each counted once, and its deepest prefix.

    `characters` are message text and tool-call arguments; tokens are estimated as characters / 4. `unanswered` are
    turns without a recorded answer, `parallel` answers with two or more calls, `reasoning` answers with reasoning.
    """

    id: str
    turns: int
    unanswered: int
    messages: int
    calls: int
    results: int
    parallel: int
    reasoning: int
    tools: int
    characters: int
    deepest_characters: int
    deepest_tokens: int
    licence: str | None = None
    source: str | None = None


class CorpusOutline(msgspec.Struct, frozen=True, kw_only=True):
    """A corpus: sums over its episodes, and the deepest prefix of any; `licences` counts episodes by licence."""

    name: str
    path: str
    digest: str
    episodes: int
    turns: int
    messages: int
    calls: int
    results: int
    characters: int
    deepest_characters: int
    deepest_tokens: int
    deep_episodes: int
    licences: dict[str, int]


def outline(episode: Episode) -> EpisodeOutline:
    """Return the numbers of one episode."""
    messages = [node.message for node in episode.nodes]
    sums = depths(episode)
    deepest = max((sums[turn.prefix] for turn in episode.turns), default=0)
    return EpisodeOutline(
        id=episode.id,
        turns=len(episode.turns),
        unanswered=sum(turn.answer is None for turn in episode.turns),
        messages=len(messages),
        calls=sum(len(message.tool_calls) for message in messages),
        results=sum(message.role == "tool" for message in messages),
        parallel=sum(len(message.tool_calls) > 1 for message in messages),
        reasoning=sum(bool(message.reasoning) for message in messages),
        tools=len(episode.tools),
        characters=sum(characters(message) for message in messages),
        deepest_characters=deepest,
        deepest_tokens=estimate_tokens(deepest),
        licence=_text(episode, "licence", "license"),
        source=_text(episode, "source"),
    )


def outline_corpus(card: CorpusCard, episodes: Sequence[Episode]) -> CorpusOutline:
    """Return the numbers of a corpus; `deep_episodes` are those with 30 turns or more."""
    return sum_outlines(card, [outline(episode) for episode in episodes])


def sum_outlines(card: CorpusCard, parts: Sequence[EpisodeOutline]) -> CorpusOutline:
    """Return the numbers of a corpus from those of its episodes."""
    deepest = max((part.deepest_characters for part in parts), default=0)
    return CorpusOutline(
        name=card.name,
        path=card.path,
        digest=card.digest,
        episodes=card.episodes,
        turns=card.turns,
        messages=sum(part.messages for part in parts),
        calls=sum(part.calls for part in parts),
        results=sum(part.results for part in parts),
        characters=sum(part.characters for part in parts),
        deepest_characters=deepest,
        deepest_tokens=estimate_tokens(deepest),
        deep_episodes=sum(part.turns >= _DEEP_TURNS for part in parts),
        licences=dict(sorted(Counter(part.licence or "not stated" for part in parts).items())),
    )


def _text(episode: Episode, *names: str) -> str | None:
    """Return the first of these entries of `meta` that is text."""
    return next((value for name in names if isinstance(value := episode.meta.get(name), str) and value), None)

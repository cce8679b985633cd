"""
soak's own corpora (`soak.episode/1`), so that corpora can be put together, renamed or redacted by an import.

Episodes come out as they went in: messages, tree, turns, tools and meta.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import EPISODE_SCHEMA, Episode, encode, episode_from_json
from soak.importers.corpus import check_episode
from soak.importers.entries import Format, each
from soak.importers.reading import UnreadableError
from soak.importers.tally import Tally


def recognises(value: Any) -> bool:
    """Return whether `value` is an episode of a corpus."""
    return isinstance(value, dict) and value.get("schema") == EPISODE_SCHEMA


def _episode(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    try:
        episode = episode_from_json(encode(value))
        flaw = check_episode(episode)
    except (ValueError, RecursionError) as error:
        flaw = str(error)
    if flaw is not None:
        raise UnreadableError(name, f"is not an episode: {flaw[:300]}")
    for node in episode.nodes:
        tally.find(node.message)
    yield episode


read = each(_episode)
FORMAT = Format(name="soak-corpus", recognises=recognises, read=read)

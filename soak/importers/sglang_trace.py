"""
SGLang's agentic-trace (`bench_serving --dataset-name agentic-trace`): what the user and tools said, turn by turn.

`{"metadata", "conversations": [[{"messages": [new messages], "prompt_tokens"}, ...]]}`; the answers are left out, the
live one is fed back, so these are live-history scripts.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Format, each
from soak.importers.live_script import scripted
from soak.importers.tally import Tally
from soak.importers.values import count, listing, mapping, mappings


def recognises(value: Any) -> bool:
    """Return whether `value` is such a trace."""
    first = next(iter(listing(mapping(value).get("conversations"))), None)
    return isinstance(first, list) and any("messages" in turn for turn in mappings(first[:1]))


def _trace(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    for i, conversation in enumerate(listing(mapping(value).get("conversations"))):
        if not isinstance(conversation, list):
            tally.drop("an entry that is no conversation")
            continue
        turns = mappings(conversation)
        tokens = [count(turn.get("prompt_tokens")) for turn in turns]
        said = [turn.get("messages") for turn in turns]
        episode = scripted(said, id_=f"{name}-{i + 1:03d}", meta={}, tokens=tokens, tally=tally)
        if episode is not None:
            yield episode


read = each(_trace)
FORMAT = Format(name="sglang-trace", recognises=recognises, read=read)

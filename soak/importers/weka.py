"""
Weka's kv-cache-tester traces: a Claude Code session as block hashes and lengths, no text; with side agents inside.

`in` and `out` are tokens, `hash_ids` the blocks of the prompt, local to the file. The session and each side agent
become load-shape episodes with filler text; blocks that side agents share with the session have the same text.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Format, each
from soak.importers.filler import Filler, bundled_filler
from soak.importers.load_shape import Shape, shaped
from soak.importers.tally import Tally
from soak.importers.values import count, listing, mapping, mappings, name_of, number, text

_BLOCK_MAX = 65_536


def recognises(value: Any) -> bool:
    """Return whether `value` is such a trace."""
    return isinstance(value, dict) and {"block_size", "hash_id_scope", "requests"} <= value.keys()


def _trace(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    root = mapping(value)
    block = count(root.get("block_size")) or 64
    if not 0 < block <= _BLOCK_MAX:
        tally.drop("a trace with blocks of no usable size")
        return
    own = name_of(root, "id") or name
    filler = bundled_filler()
    system = (count(root.get("tool_tokens")) or 0) + (count(root.get("system_tokens")) or 0)
    requests = mappings(root.get("requests"))
    yield from _agent(own, own, requests, block, system, filler, tally)
    for i, agent in enumerate(one for one in requests if one.get("type") == "subagent"):
        id_ = f"{own}.{name_of(agent, 'agent_id') or f'agent_{i + 1:03d}'}"
        inner = mappings(agent.get("requests"))
        system = (count(agent.get("tool_tokens")) or 0) + (count(agent.get("system_tokens")) or 0)
        yield from _agent(id_, own, inner, block, system, filler, tally)


read = each(_trace)
FORMAT = Format(name="weka", recognises=recognises, read=read)


def _agent(
    id_: str, scope: str, requests: list[dict[str, Any]], block: int, system: int, filler: Filler, tally: Tally
) -> Iterator[Episode]:
    own = [one for one in requests if one.get("type") != "subagent"]
    shapes = [_shape(one, block) for one in own]
    models = sorted({model for one in own if (model := text(one.get("model"))) is not None})
    types = [str(one.get("type"))[:1] for one in own]
    meta: dict[str, Any] = {"models": models, "streamed": types.count("s")}
    episode = shaped(id_, shapes, scope=scope, filler=filler, tally=tally, system_tokens=system, meta=meta)
    if episode is not None:
        tally.note(f"{id_}: {len(shapes)} requests, prompts up to {max(one.prompt_tokens for one in shapes)} tokens")
        yield episode


def _shape(request: dict[str, Any], block: int) -> Shape:
    return Shape(
        blocks=[one for one in listing(request.get("hash_ids")) if isinstance(one, int | str)],
        block_tokens=block,
        prompt_tokens=count(request.get("in")) or 0,
        completion_tokens=count(request.get("out")) or 0,
        wait_s=number(request.get("think_time")),
    )

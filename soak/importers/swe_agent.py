"""
SWE-agent trajectories (`.traj`), 0.x and 1.x, and demonstrations that hold a history only.

From 1.1 on a step's `query` is exactly what the model saw (older results may be elided in it), so the contexts are
built from the queries; before that there is only `history`, the whole conversation. The demonstration in it is prompt
text. Results carry their call's id in a list (`tool_call_ids`). Text actions stay text.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from soak.facts import Episode
from soak.importers.assembly import Thread
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.tally import Tally
from soak.importers.values import chosen, embedded, listing, mapping, mappings, name_of, text

_MARKS = ("agent", "message_type", "is_demo", "thought")


def recognises(value: Any) -> bool:
    """Return whether `value` is such a trajectory."""
    if not isinstance(value, dict) or not isinstance(value.get("history"), list):
        return False
    items = mappings(value["history"][:5])
    return bool(items) and all("role" in item for item in items) and any(mark in items[0] for mark in _MARKS)


def _trajectory(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    root = mapping(value)
    thread = Thread()
    queries = [step for step in mappings(root.get("trajectory")) if listing(step.get("query"))]
    history = _reads(listing(root.get("history")), [], tally)
    if queries:
        _from_queries(thread, queries, history, tally)
    else:
        thread.extend([read for read in history if read is not None])
        if _shortened(root):
            tally.note("history processors shortened what was sent; this file has only the whole history")
    episode = thread.finish(id_=_id(root, name), tools=(), meta=_meta(root), tally=tally)
    if episode is not None:
        yield episode


read = each(_trajectory)
FORMAT = Format(name="swe-agent", recognises=recognises, read=read)


def _from_queries(thread: Thread, steps: list[dict[str, Any]], history: list[Read | None], tally: Tally) -> None:
    """Add one context a step, and the last answer, which only the history has whole."""
    raw: list[Any] = []
    reads: list[Read | None] = []
    for step in steps:
        query = listing(step["query"])
        shared = next((i for i, pair in enumerate(zip(raw, query, strict=False)) if pair[0] != pair[1]), None)
        known = min(len(raw), len(query)) if shared is None else shared
        reads = _reads(query, reads[:known], tally)
        raw = query
        thread.extend([read for read in reads if read is not None])
    last = next((read for read in reversed(history) if read is not None and read.message.role == "assistant"), None)
    response = text(steps[-1].get("response"), 200)
    if last is not None and (response is None or response in str(last.message.content)):
        thread.extend([*(read for read in reads if read is not None), msgspec.structs.replace(last)])


def _reads(messages: list[Any], known: list[Read | None], tally: Tally) -> list[Read | None]:
    """Return the messages read; those at the beginning that are known are not read again."""
    reads = list(known)
    for i in range(len(known), len(messages)):
        raw = messages[i]
        ids = listing(raw.get("tool_call_ids")) if isinstance(raw, dict) else []
        if ids and isinstance(raw, dict) and "tool_call_id" not in raw:
            raw = {**raw, "tool_call_id": ids[0]}
        message = read_message(raw, i, tally)
        is_call = not (isinstance(raw, dict) and raw.get("is_demo"))
        reads.append(None if message is None else Read(message=message, is_call=is_call))
    return reads


def _shortened(root: dict[str, Any]) -> bool:
    """Return whether the run's settings say that older observations were elided from what was sent."""
    agent = mapping(mapping(embedded(root.get("replay_config"))).get("agent"))
    kinds = [str(one.get("type")) for one in mappings(agent.get("history_processors"))]
    return any(word in kind for kind in kinds for word in ("last", "elide", "window"))


def _id(root: dict[str, Any], name: str) -> str:
    return name_of(root, "instance_id") or name


def _meta(root: dict[str, Any]) -> dict[str, Any]:
    info = mapping(root.get("info"))
    settings = mapping(mapping(mapping(embedded(root.get("replay_config"))).get("agent")).get("model"))
    request = chosen(settings, "temperature", "top_p", "stop")
    model = text(settings.get("name"))
    if model and model != "replay":
        request = {"model": model, **request}
    meta = {"exit_status": text(info.get("exit_status")), "request": request}
    return {key: value for key, value in meta.items() if value}

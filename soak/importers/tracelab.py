"""
TraceLab rounds: one line a model call of a session, with its token counts and tool times, no text.

A round has `input_tokens_total`, of which `prefix_tokens` came from the cache. Rounds of one `session_id` in the order
of `round_index` are a conversation: each goes on with the one before it where it is longer; else it shares what the
cache gave. They become load-shape episodes with filler text.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.filler import bundled_filler
from soak.importers.load_shape import BLOCKS_MAX, PROMPT_TOKENS_MAX, Shape, shaped
from soak.importers.reading import UnreadableError
from soak.importers.tally import Tally
from soak.importers.values import count, mapping, mappings, name_of, number, text

ROUNDS_MAX = 500_000
_BLOCK_TOKENS = 64


class _Round(msgspec.Struct, kw_only=True):
    """What is kept of a line."""

    index: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    tools_s: float | None
    tools: int


def recognises(value: Any) -> bool:
    """Return whether `value` is such a line."""
    return isinstance(value, dict) and {"prefix_tokens", "newly_append_tokens", "session_id"} <= value.keys()


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each session."""
    sessions: dict[str, list[_Round]] = {}
    models: dict[str, str] = {}
    number_ = 0
    for entry in entries:
        row = mapping(entry.value)
        session, prompt = name_of(row, "session_id"), count(row.get("input_tokens_total"))
        if session is None or prompt is None:
            tally.drop("a line that is no round")
            continue
        number_ += 1
        if number_ > ROUNDS_MAX:
            raise UnreadableError(entry.place, f"more than {ROUNDS_MAX} rounds in one file")
        sessions.setdefault(session, []).append(_round(row, prompt))
        models.setdefault(session, text(row.get("model")) or "")
    filler = bundled_filler() if sessions else None
    for session, rounds in sessions.items():
        rounds.sort(key=lambda one: one.index)
        tools = sum(one.tools for one in rounds)
        meta: dict[str, Any] = {"models": [models[session]] if models[session] else [], "recorded_calls": tools}
        if sum(one.prompt_tokens // _BLOCK_TOKENS + 1 for one in rounds) > BLOCKS_MAX:
            tally.drop(f"a session of more than {BLOCKS_MAX} blocks")
            continue
        shapes = _shapes(rounds, session)
        assert filler is not None  # there is a session
        episode = shaped(session, shapes, scope=name, filler=filler, tally=tally, meta=meta)
        tally.note(f"{session}: {len(rounds)} rounds, {tools} tool calls")
        if episode is not None:
            yield episode


FORMAT = Format(name="tracelab", recognises=recognises, read=read)


def _round(row: dict[str, Any], prompt: int) -> _Round:
    tools = mappings(row.get("tools"))
    waits = [wait for tool in tools if (wait := number(tool.get("tool_wall_latency_ms"))) is not None]
    return _Round(
        index=count(row.get("round_index")) or 0,
        prompt_tokens=prompt,
        cached_tokens=count(row.get("prefix_tokens")) or 0,
        completion_tokens=count(row.get("output_tokens")) or 0,
        tools_s=max(waits) / 1000 if waits else None,
        tools=len(tools),
    )


def _shapes(rounds: list[_Round], session: str) -> list[Shape]:
    """Return the rounds with blocks of their own: new ones from where a round does not go on with the one before."""
    shapes: list[Shape] = []
    keys: list[str] = []
    before: _Round | None = None
    for k, one in enumerate(rounds):
        size = min(one.prompt_tokens, PROMPT_TOKENS_MAX)
        if before is not None and one.prompt_tokens < before.prompt_tokens:
            keys = keys[: min(one.cached_tokens, one.prompt_tokens) // _BLOCK_TOKENS]
        keys = keys + [f"{session}/{k}/{j}" for j in range(len(keys), -(-size // _BLOCK_TOKENS))]
        wait_s = None if before is None or before.tools_s is None else round(before.tools_s, 3)
        shapes.append(
            Shape(
                blocks=keys,
                block_tokens=_BLOCK_TOKENS,
                prompt_tokens=one.prompt_tokens,
                completion_tokens=one.completion_tokens,
                wait_s=wait_s,
            )
        )
        before = one
    return shapes

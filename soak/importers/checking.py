"""What is odd in a corpus that loads: conversations a server may refuse or a template may render differently."""

import json
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from soak.facts import Episode, Message, text_of

Severity = Literal["problem", "note"]
_LISTED_MAX = 500


class CorpusProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One oddity: a *problem* should be mended, a *note* is worth knowing. `message` is its index in the episode."""

    episode: str
    message: int | None
    severity: Severity
    text: str


def check_corpus(episodes: Sequence[Episode]) -> tuple[CorpusProblem, ...]:
    """Return all oddities of the episodes of a corpus, at most 500 an episode, in order."""
    found: list[CorpusProblem] = []
    for episode in episodes:
        for i, (message, severity, text) in enumerate(_oddities(episode)):
            if i >= _LISTED_MAX:
                break
            found.append(CorpusProblem(episode=episode.id, message=message, severity=severity, text=text))
    return tuple(found)


def _oddities(episode: Episode) -> Iterator[tuple[int | None, Severity, str]]:
    if not episode.turns:
        yield None, "problem", "has no turn to replay"
    if not isinstance(episode.meta.get("licence", episode.meta.get("license")), str):
        yield None, "note", "states no licence"
    if not episode.tools and any(node.message.tool_calls for node in episode.nodes):
        yield None, "note", "calls tools but offers none (tools is empty)"
    yield from _of_messages(episode)
    yield from _of_calls(episode)
    yield from _of_turns(episode)


def _of_messages(episode: Episode) -> Iterator[tuple[int, Severity, str]]:
    names = {_name(tool) for tool in episode.tools}
    for i, node in enumerate(episode.nodes):
        message = node.message
        if message.role != "assistant" and not message.content:
            yield i, "note", f"an empty message by the {message.role}"
        if message.tool_calls and message.role != "assistant":
            yield i, "problem", f"a tool call by the {message.role}"
        for call in message.tool_calls:
            if not _is_object(call.arguments):
                yield i, "note", f"the arguments of {call.name} are not a JSON object"
            if names and call.name not in names:
                yield i, "note", f"calls {call.name}, which is not among the tools offered"


def _of_calls(episode: Episode) -> Iterator[tuple[int, Severity, str]]:
    """Follow each branch from its start: results without a call, and calls that were passed over."""
    open_calls: list[frozenset[str]] = []
    for i, node in enumerate(episode.nodes):
        message = node.message
        waiting = frozenset() if node.parent is None else open_calls[node.parent]
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                yield i, "problem", f"a tool result without a call (id {message.tool_call_id})"
            waiting -= {message.tool_call_id or ""}
        elif waiting:
            yield i, "problem", f"{len(waiting)} tool calls before it have no result"
            waiting = frozenset()
        ids = [call.id for call in message.tool_calls]
        if len(set(ids)) != len(ids):
            yield i, "problem", "two calls of one answer have the same id"
        open_calls.append(waiting | frozenset(ids))


def _of_turns(episode: Episode) -> Iterator[tuple[int, Severity, str]]:
    for turn in episode.turns:
        if episode.nodes[turn.prefix].message.role == "assistant":
            yield turn.prefix, "note", f"turn {turn.index} follows an answer, so the model is asked to go on by itself"
        answer = episode.answer(turn)
        if answer is not None and _is_empty(answer):
            yield turn.answer or 0, "note", f"the recorded answer of turn {turn.index} is empty"


def _is_empty(message: Message) -> bool:
    return not message.tool_calls and not text_of(message.content).strip() and not message.reasoning


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _name(tool: dict[str, object]) -> object:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else None

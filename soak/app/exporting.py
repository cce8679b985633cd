"""`soak corpus export`: a corpus, one conversation or one turn of it as the files of other tools."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.client import compose
from soak.errors import CorpusError, UsageError
from soak.facts import Episode, Message, Sampling, Turn
from soak.importers import (
    EXPORT_FORMATS,
    Composed,
    Exported,
    ExportFormat,
    export,
    find_corpus,
    load_corpus,
    recorded_parameters,
)

_UNSET = Sampling(temperature=None, top_p=None)


def export_corpus(
    name_or_path: str,
    path: Path,
    format_: str,
    *,
    episode: str | None = None,
    turn: int | None = None,
    model: str | None = None,
    replace: bool = False,
) -> Exported:
    """
    Write a corpus, one episode or one turn of it for another tool; return what was written and what was lost.

    Requests are those that a run sends, with the sampling that was recorded and no other; `model` takes the place of
    the recorded one. Raises `CorpusError` where there is no such corpus, episode or turn; `UsageError` where `path` is
    taken or the format unknown.
    """
    if format_ not in EXPORT_FORMATS:
        known = ", ".join(EXPORT_FORMATS)
        raise UsageError(f"no format {format_!r}", why=f"an export writes {known}", hint="name one with --format")
    lost: Counter[str] = Counter()
    chosen = _chosen(name_or_path, episode, turn)
    composed = (_composed(one, turns, format_, model, lost) for one, turns in chosen)
    written = export(path, composed, format_, replace=replace)
    return msgspec.structs.replace(written, lost=dict(lost + Counter(written.lost)))


def _chosen(name_or_path: str, episode: str | None, turn: int | None) -> list[tuple[Episode, tuple[Turn, ...]]]:
    """Return the episodes asked for, each with the turns asked for."""
    episodes = load_corpus(find_corpus(name_or_path)).episodes
    if episode is None:
        return [(one, one.turns) for one in episodes]
    hint = f"soak corpus show {name_or_path}"
    found = next((one for one in episodes if one.id == episode), None)
    if found is None:
        raise CorpusError(f"{name_or_path} has no episode {episode}", why="the id is unknown", hint=hint)
    if turn is None:
        return [(found, found.turns)]
    if not 0 <= turn < len(found.turns):
        why = f"its turns are 0 to {len(found.turns) - 1}"
        raise CorpusError(f"{episode} has no turn {turn}", why=why, hint=f"{hint} {episode}")
    return [(found, (found.turns[turn],))]


def _composed(
    episode: Episode, turns: Sequence[Turn], format_: ExportFormat, model: str | None, lost: Counter[str]
) -> Composed:
    if format_ == "vllm":
        return Composed(id=episode.id, bodies=(), said=_said(episode, turns, lost))
    _count_lost(episode, turns, lost)
    return Composed(id=episode.id, bodies=_bodies(episode, turns, model, lost))


def _bodies(episode: Episode, turns: Sequence[Turn], model: str | None, lost: Counter[str]) -> Iterator[dict[str, Any]]:
    recorded = recorded_parameters(episode)
    if model is not None:
        recorded["model"] = model
    if "model" not in recorded:
        lost["models, which were not recorded: name one with --model"] += len(turns)
    for turn in turns:
        yield {**_request(episode.prefix(turn), episode, "native"), **recorded}


def _said(episode: Episode, turns: Sequence[Turn], lost: Counter[str]) -> list[dict[str, Any]]:
    """Return one way through a conversation as plain text: to the last turn and its answer, or to the last answer."""
    ways = (_way(episode, turn) for turn in reversed(turns) if turn is turns[-1] or turn.answer is not None)
    way = next((way for way in ways if any(message.role == "assistant" for message in way)), [])
    _count_lost_as_text(episode, turns, way, lost)
    return list(_request(way, episode, "text")["messages"])


def _way(episode: Episode, turn: Turn) -> list[Message]:
    """Return all messages up to a turn, and its answer where one was recorded."""
    answer = episode.answer(turn)
    return [*episode.prefix(turn), *([] if answer is None else [answer])]


def _request(messages: Sequence[Message], episode: Episode, mode: Any) -> dict[str, Any]:
    """Return the request that a run sends, without sampling and limits, which are the scenario's."""
    body = compose(messages, episode.tools, mode=mode, model="", sampling=_UNSET, max_tokens=1, seed=None)
    return {name: value for name, value in body.items() if name not in ("model", "max_tokens")}


def _count_lost(episode: Episode, turns: Sequence[Turn], lost: Counter[str]) -> None:
    """Count what requests have no place for."""
    sent = {id(node) for turn in turns for node in episode.chain(turn)}
    answers = [episode.nodes[turn.answer] for turn in turns if turn.answer is not None]
    in_none = "recorded answers that no request holds (the last of a conversation)"
    counts = {
        in_none: sum(id(one) not in sent for one in answers),
        "reasoning texts of answers": sum(bool(node.message.reasoning) for node in answers),
        "pauses before turns": sum(turn.wait_s is not None for turn in turns),
        "recorded answer lengths": sum(turn.completion_tokens is not None for turn in turns),
    }
    lost.update({reason: number for reason, number in counts.items() if number})


def _count_lost_as_text(episode: Episode, turns: Sequence[Turn], way: Sequence[Message], lost: Counter[str]) -> None:
    """Count what plain text has no place for, or holds in another form."""
    on_way = {id(message) for message in way}
    parts = [part for message in way if isinstance(message.content, list) for part in message.content]
    counts = {
        "messages off the way to the last answer": sum(id(node.message) not in on_way for node in episode.nodes),
        "tool calls written as text": sum(len(message.tool_calls) for message in way),
        "tool results made user messages": sum(message.role == "tool" for message in way),
        "tool schemas written as text": len(episode.tools),
        "images and other parts that are not text": sum(part.get("type") != "text" for part in parts),
        "reasoning texts of answers": sum(bool(message.reasoning) for message in way),
        "pauses before turns": sum(turn.wait_s is not None for turn in turns),
    }
    lost.update({reason: number for reason, number in counts.items() if number})

"""
Corpora, episodes and what an import read, for a terminal.

The numbers are made by a room above this one, so they are described here by what is read of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from soak.facts import Episode, Message, characters, depths, text_of
from soak.report.escape import escape_terminal, one_line
from soak.report.excerpt import marked_excerpt
from soak.report.figures import count
from soak.report.table import terminal_table

_MESSAGE_CHARACTERS = 300
_EPISODES_SHOWN = 500
_REASONS_SHOWN = 20


class CorpusFigures(Protocol):
    """A corpus in numbers; characters are message text and tool-call arguments, tokens are estimates."""

    @property
    def name(self) -> str: ...  # noqa: D102 - described by the class
    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    @property
    def episodes(self) -> int: ...  # noqa: D102
    @property
    def turns(self) -> int: ...  # noqa: D102
    @property
    def calls(self) -> int: ...  # noqa: D102
    @property
    def deepest_characters(self) -> int: ...  # noqa: D102
    @property
    def deepest_tokens(self) -> int: ...  # noqa: D102
    @property
    def licences(self) -> Mapping[str, int]: ...  # noqa: D102


class EpisodeFigures(Protocol):
    """An episode in numbers."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def turns(self) -> int: ...  # noqa: D102
    @property
    def messages(self) -> int: ...  # noqa: D102
    @property
    def calls(self) -> int: ...  # noqa: D102
    @property
    def deepest_characters(self) -> int: ...  # noqa: D102
    @property
    def deepest_tokens(self) -> int: ...  # noqa: D102


class SourceFigures(Protocol):
    """What came of one source file of an import."""

    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def format(self) -> str | None: ...  # noqa: D102
    @property
    def episodes(self) -> int: ...  # noqa: D102
    @property
    def turns(self) -> int: ...  # noqa: D102
    @property
    def messages(self) -> int: ...  # noqa: D102
    @property
    def repaired(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def dropped(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def broken(self) -> "Sequence[BrokenPlace]": ...  # noqa: D102


class BrokenPlace(Protocol):
    """Where a source could not be read on, and why."""

    @property
    def place(self) -> str: ...  # noqa: D102 - described by the class
    @property
    def why(self) -> str: ...  # noqa: D102


def terminal_corpora(corpora: Sequence[CorpusFigures]) -> str:
    """Return a table of corpora, one a line."""
    if not corpora:
        return "no corpora found"
    rows = [
        [one_line(one.name, 40), count(one.episodes), count(one.turns), count(one.deepest_tokens), _licences(one)]
        for one in corpora
    ]
    return "\n".join(terminal_table(["corpus", "episodes", "turns", "deepest, tokens", "licence"], rows, indent=""))


def _licences(corpus: CorpusFigures) -> str:
    return one_line(", ".join(corpus.licences), 60)


def terminal_corpus(corpus: CorpusFigures, episodes: Sequence[EpisodeFigures]) -> str:
    """Return one corpus and its episodes."""
    lines = [
        f"{one_line(corpus.name, 60)}: {count(corpus.episodes)} episodes, {count(corpus.turns)} turns,"
        f" {count(corpus.calls)} tool calls",
        f"  deepest prefix: {count(corpus.deepest_characters)} characters, about {count(corpus.deepest_tokens)} tokens",
        f"  licence: {_licences(corpus)}",
        f"  hash: {one_line(corpus.digest, 100)}",
        f"  path: {one_line(corpus.path, 300)}",
        "",
    ]
    rows = [
        [one_line(one.id, 60), count(one.turns), count(one.messages), count(one.calls), count(one.deepest_tokens)]
        for one in episodes[:_EPISODES_SHOWN]
    ]
    lines += terminal_table(["episode", "turns", "messages", "calls", "deepest, tokens"], rows)
    more = len(episodes) - len(rows)
    return "\n".join([*lines, f"  … and {count(more)} more"] if more else lines)


def terminal_episode(episode: Episode) -> str:
    """Return an episode message by message, each shortened, with the turn that each recorded answer belongs to."""
    answers = {turn.answer: turn.index for turn in episode.turns if turn.answer is not None}
    sums = depths(episode)
    lines = [f"{one_line(episode.id, 100)}: {count(len(episode.turns))} turns, {count(len(episode.nodes))} messages"]
    for index, node in enumerate(episode.nodes):
        turn = f", answer of turn {answers[index]}" if index in answers else ""
        after = "" if node.parent == (index - 1 if index else None) else f", after message {node.parent}"
        size = f"{count(characters(node.message))} characters, {count(sums[index])} so far"
        lines += ["", f"[{index}] {node.message.role} ({size}{turn}{after})", *_message(node.message)]
    return "\n".join(lines)


def _message(message: Message) -> Iterable[str]:
    head, tail = _MESSAGE_CHARACTERS * 2 // 3, _MESSAGE_CHARACTERS // 3
    parts = [("reasoning: ", message.reasoning or ""), ("", text_of(message.content))]
    parts += [(f"call {one_line(call.name, 60)}: ", call.arguments) for call in message.tool_calls]
    for lead, text in parts:
        if text:
            yield from (
                f"    {lead if i == 0 else ''}{line}"
                for i, line in enumerate(marked_excerpt(text, (), head=head, tail=tail))
            )


def terminal_import(reports: Sequence[SourceFigures]) -> str:
    """Return what an import read, repaired and dropped, file by file, and why."""
    lines = []
    for one in reports:
        made = f"{count(one.episodes)} episodes, {count(one.turns)} turns, {count(one.messages)} messages"
        lines.append(f"{one_line(one.source, 200)}: {one.format or 'not a known format'}: {made}")
        for what, reasons in (("repaired", one.repaired), ("dropped", one.dropped)):
            lines += [
                f"  {what} {count(number)}: {one_line(why, 200)}"
                for why, number in list(reasons.items())[:_REASONS_SHOWN]
            ]
        lines += [
            f"  NOT READ ON from {one_line(broken.place, 200)}: {one_line(broken.why, 300)}"
            for broken in one.broken[:_REASONS_SHOWN]
        ]
        lines += [f"  note: {escape_terminal(note[:300])}" for note in one.notes[:_REASONS_SHOWN]]
    episodes, turns = sum(one.episodes for one in reports), sum(one.turns for one in reports)
    return "\n".join([*lines, f"in all: {count(episodes)} episodes, {count(turns)} turns"])

"""
An episode: one imported conversation, its messages chained by hash, and the turns (model calls) in it.

On disk a corpus is JSONL, one episode a line:

    {"schema": "soak.episode/1", "id": "...", "tools": [...], "messages": [{"role": ..., ...}, ...],
     "turns": [{"prefix": 1, "answer": 2, "wait_s": 0.4}, ...], "meta": {...}}

`messages[i]` follows `messages[i-1]` unless it says `"after": j` (conversations that are not append-only form a tree;
`"after": null` starts afresh). A message has the fields of `Message`; defaults are left out.
`turns[k].prefix` is the index of the last message the model saw, `answer` that of the recorded answer (or null).
Where `turns` is absent, each assistant message that follows another message is a turn.
A message's digest covers its canonical JSON and its parent's digest, so equal prefixes have equal digests and are
stored once.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from soak.facts.codec import canonical, digest_of

EPISODE_SCHEMA = "soak.episode/1"
CHARACTERS_PER_TOKEN = 4

Role = Literal["system", "developer", "user", "assistant", "tool"]
Content = str | list[dict[str, Any]] | None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call. `arguments` is the JSON text as sent by the model, kept verbatim even where it does not parse."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation; `reasoning` is kept apart from `content` and is not re-sent."""

    role: Role
    content: Content = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the chain: `parent` is the index of the node before it (None for the first)."""

    message: Message
    parent: int | None
    digest: str


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model call: `prefix` and `answer` are node indices; `wait_s` is the recorded pause before it."""

    index: int
    prefix: int
    answer: int | None = None
    wait_s: float | None = None
    completion_tokens: int | None = None


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation: `tools` are OpenAI tool schemas offered in every turn; `meta` is free (source, licence, …)."""

    id: str
    nodes: tuple[Node, ...]
    turns: tuple[Turn, ...]
    tools: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = {}

    def prefix(self, turn: Turn) -> tuple[Message, ...]:
        """Return all the model sees at `turn`, first message first."""
        messages: list[Message] = []
        at: int | None = turn.prefix
        while at is not None:
            messages.append(self.nodes[at].message)
            at = self.nodes[at].parent
        messages.reverse()
        return tuple(messages)

    def chain(self, turn: Turn) -> tuple[Node, ...]:
        """Return the nodes of `turn`'s prefix, first node first."""
        nodes: list[Node] = []
        at: int | None = turn.prefix
        while at is not None:
            nodes.append(self.nodes[at])
            at = self.nodes[at].parent
        nodes.reverse()
        return tuple(nodes)

    def answer(self, turn: Turn) -> Message | None:
        """Return the recorded answer of `turn`, or None where nothing was recorded."""
        return None if turn.answer is None else self.nodes[turn.answer].message


def text_of(content: Content) -> str:
    """Return the text of a message's content: parts joined, non-text parts left out, None as ''."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if isinstance(part.get("text"), str))


def characters(message: Message) -> int:
    """Return the size of a message in characters: its text and its tool-call arguments; reasoning is not counted."""
    return len(text_of(message.content)) + sum(len(call.arguments) for call in message.tool_calls)


def depths(episode: Episode) -> tuple[int, ...]:
    """Return for each node the characters of all messages from the first one to it."""
    sums: list[int] = []
    for node in episode.nodes:
        sums.append(characters(node.message) + (0 if node.parent is None else sums[node.parent]))
    return tuple(sums)


def estimate_tokens(count: int) -> int:
    """Return roughly how many tokens `count` characters are: a quarter, which is usual for code and English."""
    return -(-count // CHARACTERS_PER_TOKEN)


def make_episode(
    id: str,  # noqa: A002 - the field's name
    messages: list[Message],
    *,
    parents: list[int | None] | None = None,
    turns: list[Turn] | None = None,
    tools: tuple[dict[str, Any], ...] = (),
    meta: dict[str, Any] | None = None,
) -> Episode:
    """
    Chain `messages` by hash and return the episode.

    `parents[i]` must be below i (default: i - 1). Without `turns`, each assistant message that follows another
    message is a turn. The tool schemas are hashed into the first node, since the model sees them before it.

    Raises `ValueError` if a parent or a turn points outside the messages.
    """
    parents = parents if parents is not None else [i - 1 if i else None for i in range(len(messages))]
    nodes: list[Node] = []
    root = digest_of(list(tools)) if tools else ""
    for i, (message, parent) in enumerate(zip(messages, parents, strict=True)):
        if parent is not None and not 0 <= parent < i:
            raise ValueError(f"message {i} follows message {parent}, which is not before it")
        nodes.append(
            Node(
                message=message,
                parent=parent,
                digest=digest_of(message, root if parent is None else nodes[parent].digest),
            )
        )
    if turns is None:
        answers = [i for i, node in enumerate(nodes) if node.message.role == "assistant" and node.parent is not None]
        turns = [Turn(index=k, prefix=nodes[i].parent or 0, answer=i) for k, i in enumerate(answers)]
    for turn in turns:
        if not 0 <= turn.prefix < len(nodes) or not (turn.answer is None or 0 <= turn.answer < len(nodes)):
            raise ValueError(f"turn {turn.index} points outside the {len(nodes)} messages")
    return Episode(id=id, nodes=tuple(nodes), turns=tuple(turns), tools=tools, meta=meta or {})


def chained(
    nodes: Sequence[Node], messages: Iterable[Message], tools: Sequence[dict[str, Any]] = ()
) -> tuple[Node, ...]:
    """
    Return the chain `nodes` with `messages` behind it, hashed as `make_episode` does: equal prefixes, equal digests.

    `tools` are the schemas offered with the first message of the chain.
    """
    grown = list(nodes)
    root = digest_of(list(tools)) if tools else ""
    for message in messages:
        before = grown[-1].digest if grown else root
        parent = len(grown) - 1 if grown else None
        grown.append(Node(message=message, parent=parent, digest=digest_of(message, before)))
    return tuple(grown)


class _MessageLine(Message, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A message as it stands in a corpus line."""

    after: int | msgspec.UnsetType | None = msgspec.UNSET


class _TurnLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A turn as it stands in a corpus line; its index is its place in the list, and may be left out."""

    index: int | None = None
    prefix: int
    answer: int | None = None
    wait_s: float | None = None
    completion_tokens: int | None = None


class _EpisodeLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a corpus file."""

    id: str
    messages: list[_MessageLine]
    schema: Literal["soak.episode/1"]
    tools: list[dict[str, Any]] = []
    turns: list[_TurnLine] | None = None
    meta: dict[str, Any] = {}


def episode_from_json(data: bytes | str) -> Episode:
    """
    Return the episode in one line of a corpus file.

    Raises `msgspec.DecodeError` (`ValidationError` is one) if it is not one, `ValueError` if a link in it is broken,
    `RecursionError` if it is nested beyond reason.
    """
    line = msgspec.json.decode(data, type=_EpisodeLine)
    parents: list[int | None] = []
    if any(turn.index not in (None, k) for k, turn in enumerate(line.turns or ())):
        raise ValueError("a turn's index is not its place in the list")
    for i, message in enumerate(line.messages):
        parents.append((i - 1 if i else None) if message.after is msgspec.UNSET else message.after)
    turns = [
        Turn(index=k, prefix=t.prefix, answer=t.answer, wait_s=t.wait_s, completion_tokens=t.completion_tokens)
        for k, t in enumerate(line.turns or ())
    ]
    messages = [_plain(message) for message in line.messages]
    return make_episode(
        line.id,
        messages,
        parents=parents,
        turns=None if line.turns is None else turns,
        tools=tuple(line.tools),
        meta=line.meta,
    )


def _plain(message: Message) -> Message:
    """Return a message without the fields that only its line has."""
    return Message(**{name: getattr(message, name) for name in Message.__struct_fields__})


def episode_to_json(episode: Episode) -> bytes:
    """Return the canonical line (no line break) of an episode; equal episodes give equal bytes."""
    messages: list[dict[str, Any]] = []
    for i, node in enumerate(episode.nodes):
        message = msgspec.to_builtins(node.message)
        if node.parent != (i - 1 if i else None):
            message["after"] = node.parent
        messages.append(message)
    turns = [
        {name: value for name, value in msgspec.to_builtins(turn).items() if name != "index"} for turn in episode.turns
    ]
    line: dict[str, Any] = {"schema": EPISODE_SCHEMA, "id": episode.id, "messages": messages, "turns": turns}
    if episode.tools:
        line["tools"] = list(episode.tools)
    if episode.meta:
        line["meta"] = episode.meta
    return canonical(line)

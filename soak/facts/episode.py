"""
An episode: one imported conversation, its messages chained by hash, and the turns (model calls) in it.

On disk a corpus is JSONL, one episode a line:

    {"schema": "soak.episode/1", "id": "...", "tools": [...], "messages": [{"role": ..., ...}, ...],
     "turns": [{"prefix": 1, "answer": 2, "wait_s": 0.4}, ...], "meta": {...}}

`messages[i]` follows `messages[i-1]` unless it says `"after": j` (conversations that are not append-only form a tree).
`turns[k].prefix` is the index of the last message the model saw, `answer` that of the recorded answer (or null).
Where `turns` is absent, each assistant message that follows another message is a turn.
A message's digest covers its canonical JSON and its parent's digest, so equal prefixes have equal digests and are
stored once.
"""

from typing import Any, Literal

import msgspec

from soak.facts.codec import digest_of

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

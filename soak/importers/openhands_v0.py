"""
OpenHands before the SDK (V0): `output.jsonl` of the evaluation, and trajectories as the web page downloads them.

An answer is `tool_call_metadata.model_response`, which is repeated on every action of a parallel reply and on the
results: taken once. Its results are the observations with the id of its calls, or the `cause` of its actions. An
error without a cause went back to the model as a user message; the answer that caused it is not recorded. Files of
2024 have neither ids nor responses: actions become text and their observations user messages. Events that are no
messages (state changes, recalls) are dropped and counted; a condensation begins a new context.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode, Message
from soak.importers.assembly import Thread
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.requests import answer_of, tools_of
from soak.importers.tally import Tally
from soak.importers.values import TEXT_MAX, chosen, instant, listing, mapping, mappings, name_of, text

_NO_MESSAGES = ("recall", "null", "agent_state_changed", "change_agent_state", "user_rejected")
_REBUILT = "an action without a recorded answer, written as text"
_SETTINGS = ("model", "temperature", "top_p", "top_k", "max_output_tokens", "native_tool_calling", "reasoning_effort")


def recognises(value: Any) -> bool:
    """Return whether `value` is an instance with its history, or a list of events."""
    if isinstance(value, dict):
        return any(_is_event(item) for item in _flat(listing(value.get("history"))[:5]))
    return isinstance(value, list) and any(_is_event(item) for item in value[:5])


def _instance(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    root = value if isinstance(value, dict) else {"history": value}
    history = _History(tally)
    for event in _flat(listing(root.get("history"))):
        history.add(event)
    episode = history.finish(name_of(root, "instance_id") or name, _meta(root))
    if episode is not None:
        yield episode


read = each(_instance)
FORMAT = Format(name="openhands-v0", recognises=recognises, read=read)


def _flat(history: list[Any]) -> list[Any]:
    """Return the events of a history; the oldest are pairs of action and observation."""
    return [event for item in history for event in (item if isinstance(item, list) else [item])]


def _is_event(item: Any) -> bool:
    return isinstance(item, dict) and ("action" in item or "observation" in item) and "kind" not in item


class _History:
    """The events of one conversation, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._thread = Thread()
        self._reads: list[tuple[Any, Read]] = []
        self._responses: set[str] = set()
        self._calls: dict[Any, str] = {}
        self._tools: tuple[dict[str, Any], ...] = ()

    def add(self, event: Any) -> None:
        """Take one event."""
        if not _is_event(event):
            self._tally.drop("an event that is neither action nor observation")
        elif "action" in event:
            self._action(event, str(event["action"]), mapping(event.get("args")))
        else:
            self._observation(event, str(event.get("observation")))

    def finish(self, id_: str, meta: dict[str, Any]) -> Episode | None:
        """Return the episode."""
        self._thread.extend([read for _, read in self._reads])
        return self._thread.finish(id_=id_, tools=self._tools, meta=meta, tally=self._tally)

    def _action(self, event: dict[str, Any], kind: str, args: dict[str, Any]) -> None:
        call = mapping(event.get("tool_call_metadata"))
        if isinstance(call.get("model_response"), dict):
            self._answer(event, call)
        elif kind == "system":
            self._tools = tools_of(args.get("tools"), None, self._tally)
            self._say(event, {"role": "system", "content": args.get("content")})
        elif kind == "message":
            role = "user" if event.get("source") == "user" else "assistant"
            self._say(event, {"role": role, "content": _with_images(args)})
        elif kind == "condensation":
            self._condense(args)
        elif kind in _NO_MESSAGES or event.get("source") in ("user", "environment"):
            self._tally.drop(f"an event that is no message ({kind[:40]})")
        else:
            self._tally.repair(_REBUILT)
            self._say(event, {"role": "assistant", "content": _as_text(kind, args)})

    def _answer(self, event: dict[str, Any], call: dict[str, Any]) -> None:
        """Take the model's answer, unless another action of the same reply brought it already."""
        response = call["model_response"]
        id_ = text(response.get("id"))
        if isinstance(event.get("id"), int | str):
            self._calls[event["id"]] = str(call.get("tool_call_id"))
        if id_ is not None and id_ in self._responses:
            return
        answer, asked = answer_of(response)
        if answer is None:
            self._tally.drop("a response without an answer")
            return
        self._responses.add(id_ or "")
        self._say(event, answer, asked)

    def _say(self, event: dict[str, Any], raw: dict[str, Any], asked: Read | None = None) -> None:
        message = read_message(raw, len(self._reads), self._tally)
        if message is not None:
            read = asked or Read(message=message)
            read.message, read.at_s = message, instant(event.get("timestamp"))
            self._reads.append((event.get("id"), read))

    def _observation(self, event: dict[str, Any], kind: str) -> None:
        call = mapping(event.get("tool_call_metadata"))
        cause = event.get("cause")
        id_ = text(call.get("tool_call_id")) or (self._calls.get(cause) if isinstance(cause, int | str) else None)
        content = text(event.get("content"), TEXT_MAX) or ""
        if id_ is not None:
            self._say(event, {"role": "tool", "content": content, "tool_call_id": id_})
        elif kind in _NO_MESSAGES or kind.startswith("condens"):
            self._tally.drop(f"an event that is no message ({kind[:40]})")
        else:
            self._say(event, {"role": "user", "content": content})

    def _condense(self, args: dict[str, Any]) -> None:
        """Begin a new context without the events that were forgotten, with their summary if there is one."""
        self._thread.extend([read for _, read in self._reads], ends=False)
        forgotten = {id_ for id_ in listing(args.get("forgotten_event_ids")) if isinstance(id_, int | str)}
        first, last = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
        if isinstance(first, int) and isinstance(last, int):
            forgotten |= {id_ for id_, _ in self._reads if isinstance(id_, int) and first <= id_ <= last}
        kept = [(id_, read) for id_, read in self._reads if not _among(id_, forgotten)]
        self._tally.note("the history was condensed: what follows was asked without what was forgotten")
        summary = text(args.get("summary"), TEXT_MAX)
        if summary is not None:
            offset = args.get("summary_offset")
            at = offset if isinstance(offset, int) and 0 <= offset <= len(kept) else len(kept)
            kept.insert(at, (None, Read(message=Message(role="user", content=summary))))
        self._reads = kept


def _among(id_: Any, ids: set[Any]) -> bool:
    return isinstance(id_, int | str) and id_ in ids


def _with_images(args: dict[str, Any]) -> Any:
    """Return a message's content with the images beside it."""
    content = text(args.get("content"), TEXT_MAX) or ""
    images = [url for url in listing(args.get("image_urls")) if isinstance(url, str)]
    if not images:
        return content
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    return [{"type": "text", "text": content}, *pictures]


def _as_text(kind: str, args: dict[str, Any]) -> str:
    """Return an action as the text agents of its time wrote it."""
    thought = text(args.get("thought"), TEXT_MAX) or ""
    for name, tag in (("command", "execute_bash"), ("code", "execute_ipython"), ("browser_actions", "execute_browse")):
        body = text(args.get(name), TEXT_MAX)
        if body is not None:
            return f"{thought}\n<{tag}>\n{body}\n</{tag}>".lstrip()
    body = text(args.get("content"), TEXT_MAX) or text(args.get("path"), TEXT_MAX) or ""
    return f"{thought}\n<{kind[:40]}>\n{body}\n</{kind[:40]}>".lstrip()


def _meta(root: dict[str, Any]) -> dict[str, Any]:
    metadata = mapping(root.get("metadata"))
    request = chosen(mapping(metadata.get("llm_config")), *_SETTINGS)
    instance = next(iter(mappings([root.get("instance")])), {})
    meta = {
        "request": request,
        "agent": text(metadata.get("agent_class")),
        "repository": text(instance.get("repo")),
        "error": text(root.get("error")),
    }
    return {key: value for key, value in meta.items() if value}

"""
mini-swe-agent trajectories (`.traj.json`): versions 1 and 2, with or without the `info` wrapper.

Text actions stay text, their observations stay user messages; the tool calls of version 2 stay tool calls, and items
of the Responses API become messages. The message that ends a run (the submitted diff, or why it was stopped) was never
sent to the model: it is dropped. `extra.response` gives reasoning, usage and finish reason of each answer.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from soak.facts import Episode, Message, ToolCall, text_of
from soak.importers.assembly import assemble
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.tally import Tally
from soak.importers.values import TEXT_MAX, chosen, count, listing, mapping, name_of, number, text

_FENCE = "```mswea_bash_command"
_SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_INFO = ("mini_version", "model_stats", "exit_status")
_LOOKED_AT = 40
_END = "the message that ends the run"


def recognises(value: Any) -> bool:
    """Return whether `value`, the first JSON value of a file, is such a trajectory."""
    if isinstance(value, dict):
        if str(value.get("trajectory_format", "")).startswith("mini-swe-agent"):
            return isinstance(value.get("messages"), list)
        info = value.get("info")
        return isinstance(value.get("messages"), list) and isinstance(info, dict) and any(key in info for key in _INFO)
    return isinstance(value, list) and any(_is_own(item) for item in value[:_LOOKED_AT])


def _trajectory(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    """Yield the episode of one trajectory; what is none is counted. `name` is the id where it has no own."""
    root = value if isinstance(value, dict) else {"messages": value}
    raw = root.get("messages")
    if not isinstance(raw, list):
        tally.drop("an entry that is no trajectory")
        return
    info = mapping(root.get("info"))
    reads = [item for i, entry in enumerate(raw) for item in _entry(entry, i, tally)]
    reads = _without_end(reads, raw, info, tally)
    own = name_of(root, "instance_id")
    episode = assemble(reads, id_=own or name.removesuffix(".traj"), tools=(), meta=_meta(root, info), tally=tally)
    if episode is not None:
        yield episode


read = each(_trajectory)
FORMAT = Format(name="mini-swe-agent", recognises=recognises, read=read)


def _is_own(item: Any) -> bool:
    """Return whether a message shows by itself that mini-swe-agent wrote it."""
    if not isinstance(item, dict):
        return False
    content = item.get("content")
    extra = item.get("extra")
    return (isinstance(content, str) and _FENCE in content) or (
        isinstance(extra, dict) and ("actions" in extra or "response" in extra or "exit_status" in extra)
    )


def _entry(raw: Any, index: int, tally: Tally) -> Iterator[Read]:
    """Yield the message in one entry: none for an end marker, one otherwise."""
    if isinstance(raw, dict) and raw.get("role") == "exit":
        tally.drop(_END, Message(role="user", content=text(raw.get("content"), TEXT_MAX)))
        return
    if isinstance(raw, dict) and "role" not in raw:
        message = _responses_item(raw, index, tally)
    else:
        message = read_message(raw, index, tally)
    if message is not None:
        yield _with_extra(message, raw.get("extra"))


def _responses_item(raw: dict[str, Any], index: int, tally: Tally) -> Message | None:
    """Return the message in an item of the Responses API: a whole response, or the output of a call."""
    if raw.get("type") == "function_call_output":
        tally.repair("an item of the Responses API taken as a message")
        result = {"role": "tool", "tool_call_id": raw.get("call_id"), "content": raw.get("output")}
        return read_message(result, index, tally)
    if raw.get("object") != "response" or not isinstance(raw.get("output"), list):
        tally.drop("a message without a role")
        return None
    tally.repair("an item of the Responses API taken as a message")
    items = [item for item in raw["output"] if isinstance(item, dict)]
    texts = [part for item in items if item.get("type") == "message" for part in listing(item.get("content"))]
    calls = [item for item in items if item.get("type") == "function_call"]
    thoughts = [part for item in items if item.get("type") == "reasoning" for part in listing(item.get("summary"))]
    answer = {"role": "assistant", "content": _joined(texts), "reasoning": _joined(thoughts), "tool_calls": calls}
    return read_message(answer, index, tally)


def _joined(parts: list[Any]) -> str:
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _with_extra(message: Message, extra: Any) -> Read:
    """Return the message with what the raw response beside it says."""
    extra = mapping(extra)
    read = Read(message=message, at_s=number(extra.get("timestamp")))
    response = extra.get("response")
    if message.role != "assistant" or not isinstance(response, dict):
        return read
    usage = mapping(response.get("usage"))
    read.completion_tokens = count(usage.get("completion_tokens", usage.get("output_tokens")))
    read.prompt_tokens = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    choice = mapping(next(iter(listing(response.get("choices"))), None))
    read.finish_reason = text(choice.get("finish_reason"))
    inner = mapping(choice.get("message"))
    reasoning = text(inner.get("reasoning_content"), TEXT_MAX) or text(inner.get("reasoning"), TEXT_MAX)
    if reasoning and not message.reasoning:
        read.message = msgspec.structs.replace(message, reasoning=reasoning)
    return read


def _without_end(reads: list[Read], raw: list[Any], info: dict[str, Any], tally: Tally) -> list[Read]:
    """Return the messages without the last one if it ends the run instead of going to the model."""
    if len(reads) < 2 or reads[-1].message.role != "user" or not _ends(reads, raw, info):
        return reads
    tally.drop(_END, reads[-1].message)
    return reads[:-1]


def _ends(reads: list[Read], raw: list[Any], info: dict[str, Any]) -> bool:
    """Return whether the last message, by the user, is the end of the run."""
    last = raw[-1]
    extra = last.get("extra") if isinstance(last, dict) else None
    if isinstance(extra, dict) and "exit_status" in extra:
        return True
    if isinstance(last, dict) and last.get("role") == "exit":
        return False
    if text(info.get("exit_status")):
        return True
    content = text_of(reads[-1].message.content)
    asked = _asked(reads[-2].message)
    return not content.strip() or any(marker in asked for marker in _SUBMIT)


def _asked(message: Message) -> str:
    """Return the text in which an answer may ask for its submission."""
    calls: tuple[ToolCall, ...] = message.tool_calls
    return text_of(message.content) + "".join(call.arguments for call in calls)


def _meta(root: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """Return what the file says of how it was made."""
    model = mapping(mapping(info.get("config")).get("model"))
    meta: dict[str, Any] = {
        "trajectory_format": text(root.get("trajectory_format")),
        "agent_version": text(info.get("mini_version")),
        "exit_status": text(info.get("exit_status")),
        "request": _request(model),
    }
    return {key: value for key, value in meta.items() if value}


def _request(model: dict[str, Any]) -> dict[str, Any]:
    """Return model and sampling; nothing else of the settings, which may hold addresses and keys."""
    names = ("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "reasoning_effort")
    request = chosen(mapping(model.get("model_kwargs")), *names)
    name = text(model.get("model_name"))
    return {"model": name, **request} if name else request

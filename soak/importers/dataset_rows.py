"""
Rows of trajectory data sets: SWE-smith, nebius, SWE-rebench, SWE-Gym, R2E-Gym and their like.

`messages` (a list, or a JSON string) or `trajectory`, whose items are OpenAI messages padded with nulls, or nebius's
`{role: system|user|ai, text, system_prompt}`. Calls that are XML or fenced text stay text, with their observations as
user messages. A system text that holds the rendered tools already goes without the schemas.

Rows of SWE-bench and its like are known too, so that an import can say what they are: tasks (a repository, a problem
statement, tests) that hold no conversation, for `replay: agent` to work on.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode, text_of
from soak.importers.assembly import assemble
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.values import embedded, listing, mapping, mappings, name_of, text

_SIGNS = ("resolved", "patch", "generated_patch", "exit_status", "traj_id", "test_result", "target", "eval_logs")
_RENDERED = "<|im_system|>tool_declare"
TASK = "a SWE-bench task, which holds no conversation: it is for a scenario with replay: agent"


def recognises(value: Any) -> bool:
    """Return whether `value` is a row or a list of rows."""
    row = value[0] if isinstance(value, list) and value else value
    if _is_task(mapping(row)):
        return True
    if not isinstance(row, dict) or not any(sign in row for sign in _SIGNS):
        return False
    return bool(_messages(row)) and ("instance_id" in row or "traj_id" in row or "trajectory" in row)


def _rows(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    rows = value if isinstance(value, list) else [value]
    for i, row in enumerate(rows):
        messages = _messages(mapping(row))
        if not messages:
            tally.drop(TASK if _is_task(mapping(row)) else "an entry that is no row")
            continue
        yield from _row(row, messages, name if len(rows) == 1 else f"{name}-{i + 1:03d}", tally)


read = each(_rows)
FORMAT = Format(name="dataset-rows", recognises=recognises, read=read)


def _is_task(row: dict[str, Any]) -> bool:
    """Return whether a row is a task of SWE-bench, SWE-smith or SWE-Gym, without a run at it."""
    return {"instance_id", "problem_statement"} <= row.keys() and not any(
        row.get(name) for name in ("messages", "trajectory", "history", "conversations")
    )


def _messages(row: dict[str, Any]) -> list[Any]:
    """Return the messages of a row."""
    found = listing(embedded(row.get("messages"))) or listing(embedded(row.get("trajectory")))
    return found if any("role" in item for item in mappings(found[:3])) else []


def _row(row: dict[str, Any], messages: list[Any], name: str, tally: Tally) -> Iterator[Episode]:
    read_all = (read_message(_as_openai(raw), i, tally) for i, raw in enumerate(messages))
    reads = [Read(message=message) for message in read_all if message is not None]
    tools = tools_of(embedded(row.get("tools")), None, tally)
    if tools and any(_RENDERED in text_of(read.message.content) for read in reads[:1]):
        tally.repair("tool schemas that stand in the system text already, left out")
        tools = ()
    id_ = name_of(row, "instance_id", "traj_id", "id") or name
    episode = assemble(reads, id_=id_, tools=tools, meta=_meta(row), tally=tally)
    if episode is not None:
        yield episode


def _as_openai(raw: Any) -> Any:
    """Return a message of nebius's rows as OpenAI has it; others as they are."""
    if not isinstance(raw, dict) or "content" in raw or not ("text" in raw or "system_prompt" in raw):
        return raw
    role = "assistant" if raw.get("role") == "ai" else raw.get("role")
    content = raw.get("text")
    return {"role": role, "content": raw.get("system_prompt") if content is None else content}


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    model = text(row.get("model")) or text(row.get("model_name"))
    meta: dict[str, Any] = {
        "request": {"model": model} if model else {},
        "exit_status": text(row.get("exit_status")),
        "licence": text(row.get("licence")) or text(row.get("license")),
    }
    if isinstance(row.get("resolved"), bool):
        meta["resolved"] = row["resolved"]
    return {key: value for key, value in meta.items() if value not in (None, {}, "")}

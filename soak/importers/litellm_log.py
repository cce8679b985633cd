"""
Request logs of LiteLLM and of proxies: one record a request, with its messages and its response.

LiteLLM's StandardLoggingPayload, and records that hold a request and a response body side by side. Failed requests are
dropped and counted. Keys, addresses and users of the record are left behind: only messages, tools and sampling are
taken. Conversations are rebuilt by what histories have in common, and by the trace or session a record names.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode
from soak.importers.entries import Entry, Format
from soak.importers.requests import PARAMETERS, Conversations, Request, answer_of, tools_of
from soak.importers.tally import Tally
from soak.importers.values import chosen, embedded, instant, listing, mapping, name_of, text

_BODIES = (("request", "response"), ("request_body", "response_body"), ("requestBody", "responseBody"))


def recognises(value: Any) -> bool:
    """Return whether `value` is such a record, or a list of them."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and recognises(value[0])
    if not isinstance(value, dict):
        return False
    return ("call_type" in value and "messages" in value) or _bodies(value) is not None


def read(entries: Iterable[Entry], _name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation among the records."""
    conversations = Conversations(tally)
    for entry in entries:
        records = entry.value if isinstance(entry.value, list) else [entry.value]
        for i, record in enumerate(records):
            name = entry.name if len(records) == 1 else f"{entry.name}-{i + 1:03d}"
            request = _request(mapping(record), name, entry, tally)
            if request is not None:
                yield from conversations.add(request)
    yield from conversations.finish()


FORMAT = Format(name="request-log", recognises=recognises, read=read, per_folder=True)


def _bodies(value: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return request and response of a record that holds them side by side."""
    for ask, answer in _BODIES:
        request, response = embedded(value.get(ask)), embedded(value.get(answer))
        if isinstance(request, dict) and isinstance(response, dict) and listing(embedded(request.get("messages"))):
            return request, response
    return None


def _request(record: dict[str, Any], name: str, entry: Entry, tally: Tally) -> Request | None:
    body, response = _bodies(record) or (record, mapping(embedded(record.get("response"))))
    messages = listing(embedded(body.get("messages")))
    if record.get("status") in ("failure", "error") or (text(record.get("error_str")) and not response):
        tally.drop("a request that failed")
        return None
    if not messages:
        tally.drop("a record without messages (prompt storage was off)")
        return None
    answer, asked = answer_of(response)
    parameters = {**chosen(body, *PARAMETERS), **chosen(mapping(record.get("model_parameters")), *PARAMETERS)}
    if asked is not None:
        asked.at_s = instant(record.get("endTime"))
    given = mapping(record.get("model_parameters")).get("tools") or body.get("tools")
    return Request(
        messages=messages,
        answer=answer,
        asked=asked,
        tools=tools_of(given, body.get("functions"), tally),
        meta={"request": parameters} if parameters else {},
        id=name_of(record, "trace_id", "id") or name,
        key=name_of(mapping(record.get("metadata")), "session_id") or name_of(record, "session_id", "trace_id"),
        at_s=instant(record.get("startTime")),
        size=entry.size,
    )

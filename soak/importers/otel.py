"""
OpenTelemetry traces of model calls: OTLP JSON (also a line each), Tempo's `batches`, Jaeger's `data[].spans`.

Content in three generations: `gen_ai.input.messages` and its kin (JSON text, or structured in log records joined by
trace and span), flattened `gen_ai.prompt.N.*`, and OpenInference's `llm.input_messages.N.message.*`. Only spans of
model calls count; where a wrapper and a provider's span tell of one call, the one with content is taken. Conversations
are `gen_ai.conversation.id`, else the trace. Where content capture was off there is nothing to import.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from soak.facts import Episode
from soak.importers.entries import Entry, Format, whole
from soak.importers.requests import Conversations, Request, asked_of, tools_of
from soak.importers.tally import Tally
from soak.importers.values import as_json, chosen, count, embedded, instant, listing, mapping, mappings, number, text

_OPERATIONS = ("chat", "generate_content", "text_completion")
_CONVERSATION = ("gen_ai.conversation.id", "session.id", "gcp.vertex.agent.session_id")
_INDEX_MAX = 10_000
_SETTINGS = ("model", "temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty")


class _Span(msgspec.Struct, kw_only=True):
    """A span or the attributes of a log record."""

    name: str
    trace: str
    id: str
    start: float
    attributes: dict[str, Any]


def recognises(value: Any) -> bool:
    """Return whether `value` is a container of spans."""
    if not isinstance(value, dict):
        return False
    if any(isinstance(value.get(key), list) for key in ("resourceSpans", "batches", "resourceLogs")):
        return True
    return any("spans" in item for item in mappings(value.get("data"))[:1])


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each conversation among the model calls."""
    spans: list[_Span] = []
    logs: dict[tuple[str, str], dict[str, Any]] = {}
    records = 0
    for entry in whole(entries):
        spans += _spans(mapping(entry.value))
        for record in _logs(mapping(entry.value)):
            records += 1
            logs.setdefault((record.trace, record.id), {}).update(record.attributes)
    calls = sorted((span for span in spans if _is_call(span)), key=lambda span: span.start)
    conversations = Conversations(tally)
    empty = 0
    for span in calls:
        request = _request(span, logs.get((span.trace, span.id), {}), name, tally)
        if request is None:
            empty += 1
        else:
            yield from conversations.add(request)
    _tell(spans, calls, records, empty, tally)
    yield from conversations.finish()


FORMAT = Format(name="otel-genai", recognises=recognises, read=read)


def _tell(spans: list[_Span], calls: list[_Span], records: int, empty: int, tally: Tally) -> None:
    traces = len({span.trace for span in spans})
    content = sum(_has_content(span.attributes) for span in calls)
    tools = sum(span.attributes.get("gen_ai.operation.name") == "execute_tool" for span in spans)
    tally.note(
        f"{len(spans)} spans in {traces} traces: {len(calls)} model calls ({content} with content in the span), "
        f"{tools} tool calls, {records} log records"
    )
    for _ in range(empty):
        tally.drop("a model call without content (told by another span, or content capture was off)")


def _spans(value: dict[str, Any]) -> Iterator[_Span]:
    for resource in mappings(value.get("resourceSpans")) + mappings(value.get("batches")):
        for scope in mappings(resource.get("scopeSpans")) + mappings(resource.get("instrumentationLibrarySpans")):
            for span in mappings(scope.get("spans")):
                start = number(count(span.get("startTimeUnixNano"))) or 0.0
                yield _span(span, str(span.get("traceId")), str(span.get("spanId")), start)
    for trace in mappings(value.get("data")):
        for span in mappings(trace.get("spans")):
            named = {**span, "name": span.get("operationName"), "attributes": span.get("tags")}
            yield _span(named, str(span.get("traceID")), str(span.get("spanID")), number(span.get("startTime")) or 0.0)


def _logs(value: dict[str, Any]) -> Iterator[_Span]:
    for resource in mappings(value.get("resourceLogs")):
        for scope in mappings(resource.get("scopeLogs")):
            for record in mappings(scope.get("logRecords")):
                yield _span(record, str(record.get("traceId")), str(record.get("spanId")), 0.0)


def _span(raw: dict[str, Any], trace: str, id_: str, start: float) -> _Span:
    attributes = {str(item.get("key")): _plain(item.get("value"), 0) for item in mappings(raw.get("attributes"))}
    return _Span(name=str(raw.get("name")), trace=trace, id=id_, start=start, attributes=attributes)


def _plain(value: Any, depth: int) -> Any:
    """Return an attribute's value without OTLP's wrapping."""
    if not isinstance(value, dict) or depth > 60:
        return value
    if "arrayValue" in value:
        return [_plain(item, depth + 1) for item in listing(mapping(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        pairs = mappings(mapping(value["kvlistValue"]).get("values"))
        return {str(pair.get("key")): _plain(pair.get("value"), depth + 1) for pair in pairs}
    if "intValue" in value:
        found = count(value["intValue"])
        return value["intValue"] if found is None else found
    return next(iter(value.values()), None)


def _is_call(span: _Span) -> bool:
    attributes = span.attributes
    if attributes.get("gen_ai.operation.name") in _OPERATIONS or attributes.get("llm.request.type") == "chat":
        return True
    return attributes.get("openinference.span.kind") == "LLM"


def _has_content(attributes: dict[str, Any]) -> bool:
    marks = ("gen_ai.input.messages", "gen_ai.prompt.0.role", "llm.input_messages.0.message.role")
    return any(mark in attributes for mark in marks)


def _request(span: _Span, log: dict[str, Any], name: str, tally: Tally) -> Request | None:
    """Return the request a span tells of; None where neither it nor its log record has the content."""
    attributes = span.attributes if _has_content(span.attributes) else {**span.attributes, **log}
    if "gen_ai.input.messages" in attributes:
        messages, answer, tools = _structured(attributes, tally)
    else:
        messages, answer, tools = _flattened(attributes, tally)
    if not messages:
        return None
    key = next((str(attributes[key]) for key in _CONVERSATION if text(attributes.get(key))), span.trace)
    asked = asked_of(
        {f"{kind}_tokens": attributes.get(f"gen_ai.usage.{kind}_tokens") for kind in ("input", "output")},
        next(iter(listing(embedded(attributes.get("gen_ai.response.finish_reasons")))), None),
    )
    parameters = {key: attributes.get(f"gen_ai.request.{key}") for key in _SETTINGS}
    request = chosen(parameters, *_SETTINGS)
    return Request(
        messages=messages,
        answer=answer,
        asked=asked,
        tools=tools,
        meta={"request": request} if request else {},
        id=f"{name}.{key}",
        key=key,
        at_s=instant(span.start) if span.start else None,
    )


_Content = tuple[list[dict[str, Any]], dict[str, Any] | None, tuple[dict[str, Any], ...]]


def _structured(attributes: dict[str, Any], tally: Tally) -> _Content:
    """Return messages, answer and tools in the manner of the newer conventions: JSON text or structured values."""
    messages: list[dict[str, Any]] = []
    system = mappings(embedded(attributes.get("gen_ai.system_instructions")))
    if system:
        messages.append({"role": "system", "content": _joined(system)})
    for raw in mappings(embedded(attributes.get("gen_ai.input.messages"))):
        messages += _message(raw)
    output = [one for raw in mappings(embedded(attributes.get("gen_ai.output.messages"))) for one in _message(raw)]
    answer = next((one for one in output if one["role"] == "assistant"), None)
    definitions = mappings(embedded(attributes.get("gen_ai.tool.definitions")))
    tools = [one if "function" in one else {"type": "function", "function": _schema(one)} for one in definitions]
    return messages, answer, tools_of(tools, None, tally)


def _schema(raw: dict[str, Any]) -> dict[str, Any]:
    return {name: raw[name] for name in ("name", "description", "parameters") if name in raw}


def _message(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message with parts as OpenAI has it: results of tools are messages of their own."""
    parts = mappings(raw.get("parts"))
    results = [_result(part) for part in parts if part.get("type") == "tool_call_response"]
    calls = [_call(part) for part in parts if part.get("type") == "tool_call"]
    words = [part for part in parts if part.get("type") not in ("tool_call_response", "tool_call", "reasoning")]
    thoughts = "\n".join(str(part.get("content")) for part in parts if part.get("type") == "reasoning")
    if results and not calls and not words:
        return results
    role = "assistant" if raw.get("role") in ("model", "assistant") else raw.get("role")
    message = {"role": role, "content": _joined(words) if words else None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning"] = thoughts
    return [*results, message]


def _joined(parts: list[dict[str, Any]]) -> Any:
    """Return the text of parts: as it stands where it is one, else as parts."""
    texts = [str(part.get("content", part.get("text", ""))) for part in parts]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": one} for one in texts]


def _call(part: dict[str, Any]) -> dict[str, Any]:
    arguments = part.get("arguments")
    as_text = arguments if isinstance(arguments, str) else as_json({} if arguments is None else arguments)
    return {"id": part.get("id"), "name": part.get("name"), "arguments": as_text}


def _result(part: dict[str, Any]) -> dict[str, Any]:
    found = part.get("response", part.get("result"))
    content = found if isinstance(found, str) else as_json(found)
    return {"role": "tool", "tool_call_id": part.get("id"), "content": content}


def _flattened(attributes: dict[str, Any], tally: Tally) -> _Content:
    """Return messages, answer and tools from numbered attributes: OpenLLMetry's or OpenInference's."""
    if "llm.input_messages.0.message.role" in attributes:
        tree = _tree(attributes, ("llm.input_messages", "llm.output_messages"))
        messages = [_unpacked(mapping(item.get("message"))) for item in tree["llm.input_messages"]]
        output = [_unpacked(mapping(item.get("message"))) for item in tree["llm.output_messages"]]
    else:
        tree = _tree(attributes, ("gen_ai.prompt", "gen_ai.completion", "llm.request.functions"))
        messages = [_unpacked(item) for item in tree["gen_ai.prompt"]]
        output = [_unpacked(item) for item in tree["gen_ai.completion"]]
    functions = tree.get("llm.request.functions", [])
    schemas = [{**one, "parameters": embedded(one.get("parameters"))} for one in functions]
    tools = tools_of([{"type": "function", "function": one} for one in schemas], None, tally)
    answer = {**output[0], "role": "assistant"} if output else None
    return messages, answer, tools


def _tree(attributes: dict[str, Any], roots: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Return, for each root, the list of objects that `root.N.a.b` attributes spell."""
    found: dict[str, dict[int, dict[str, Any]]] = {root: {} for root in roots}
    for key, value in attributes.items():
        root = next((root for root in roots if key.startswith(root + ".")), None)
        if root is None:
            continue
        index, _, rest = key[len(root) + 1 :].partition(".")
        if index.isascii() and index.isdecimal() and int(index[:9]) < _INDEX_MAX and rest:
            _put(found[root].setdefault(int(index), {}), rest.split(".")[:12], value)
    return {root: [items[i] for i in sorted(items)] for root, items in found.items()}


def _put(at: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = at.get(key)
        if not isinstance(inner, dict):
            inner = at[key] = {}
        at = inner
    at[keys[-1]] = value


def _unpacked(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls were numbered attributes."""
    calls = item.get("tool_calls")
    listed = [calls[key] for key in sorted(calls)] if isinstance(calls, dict) else listing(calls)
    plain = [mapping(mapping(call).get("tool_call")) or mapping(call) for call in listed]
    message = {"role": item.get("role"), "content": item.get("content")}
    if plain:
        message["tool_calls"] = [
            {"id": call.get("id"), **mapping(call.get("function"))} if "function" in call else call for call in plain
        ]
    if item.get("tool_call_id"):
        message["tool_call_id"] = item["tool_call_id"]
    return message

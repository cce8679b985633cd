"""
The fake model's answers in the words of two other APIs, as vLLM sends them: /v1/responses and /v1/messages.

A script that speaks chat completion chunks is translated event by event, so that each of its faults is one of theirs;
what is no such chunk (broken JSON, half an event) stays as it is.
"""

import json
from collections.abc import Iterator
from typing import Any

from fakes.script import End, Head, Raw, Script, Send, Step, framed

DOORS = ("/v1/responses", "/v1/messages")
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


def as_chat(body: dict[str, Any], before: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a chat request that gets the answer that this request is to get; `before` is what the server has kept."""
    given = body.get("input") or body.get("messages")
    head = [body[name] for name in ("instructions", "system") if body.get(name)]
    said = [*head, *(given if isinstance(given, list) else [given])]
    messages = before + [{"role": "user", "content": json.dumps(item)} for item in said]
    tools = [_function(tool) for tool in body.get("tools") or ()]
    limit = body.get("max_output_tokens") or body.get("max_tokens")
    chat = {"model": body.get("model"), "messages": messages, "max_tokens": limit, "tools": tools}
    return {**chat, "stream": body.get("stream"), "stream_options": {"include_usage": True}}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters") or tool.get("input_schema")
    return {"type": "function", "function": {"name": tool["name"], "parameters": parameters}}


def speak(path: str, script: Script) -> Script:
    """
    Return the script with its chunks, or its whole answer, in the words of the API at `path`.

    `meta["answer"]` is the answer's id.
    """
    voice = Responses() if path == DOORS[0] else Messages()
    steps = list(script)
    match steps:
        case [Head(status=200), Raw(data), End()] if data.startswith(b'{"id"'):
            body = json.dumps(_whole(json.loads(data), voice)).encode()
            headers = (("content-type", "application/json"), ("content-length", str(len(body))))
            steps = [Head(200, headers, chunked=False), Raw(body), End()]
        case _:
            steps = [_spoken(step, voice) for step in steps]
    return Script(steps, truth=script.truth, finish=script.finish, meta={**script.meta, "answer": voice.head.get("id")})


def _spoken(step: Step, voice: "Voice") -> Step:
    if isinstance(step, Send):
        return Send(b"".join(_events(step.data, voice)), step.tokens)
    pieces = _unframed(step.data) if isinstance(step, Raw) else None
    if not isinstance(step, Raw) or pieces is None:
        return step
    spoken = (b"".join(_events(piece, voice)) for piece in pieces)
    return Raw(b"".join(framed(piece) for piece in spoken if piece), step.tokens)


def _unframed(data: bytes) -> list[bytes] | None:
    """Return the HTTP chunks that `data` is made of, None where it is made of anything else."""
    pieces = []
    while data:
        size, _, rest = data.partition(b"\r\n")
        try:
            end = int(size, 16)
        except ValueError:
            return None
        if rest[end : end + 2] != b"\r\n":
            return None
        pieces.append(rest[:end])
        data = rest[end + 2 :]
    return pieces


def _events(data: bytes, voice: "Voice") -> Iterator[bytes]:
    for block in data.split(b"\n\n"):
        if block == b"data: [DONE]":
            yield from map(sse, voice.end())
            continue
        try:
            chunk = json.loads(block.removeprefix(b"data: ")) if block.startswith(b"data: {") else None
        except ValueError:
            chunk = None
        if chunk is None:
            yield block + b"\n\n" if block else b""
        elif "error" in chunk:
            yield sse(voice.error(chunk["error"]))
        else:
            yield from map(sse, voice.take(chunk))


def sse(event: dict[str, Any]) -> bytes:
    """Return one event with its name."""
    return f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _whole(completion: dict[str, Any], voice: "Voice") -> dict[str, Any]:
    choice = completion["choices"][0]
    message = choice["message"]
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    for name in ("reasoning_content", "content"):
        voice.take({**completion, "choices": [{"delta": {name: message.get(name)}}], "usage": None})
    voice.take({**completion, "choices": [{**choice, "delta": {"tool_calls": calls}}]})
    voice.end()
    return voice.answer()


class Voice:
    """One answer: items as they grow, by what they are (a kind, or the index of a call)."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.items: dict[str, dict[str, Any]] = {}
        self.finish: str | None = None
        self.stop: Any = None
        self.usage: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events for one chunk."""
        out = []
        if not self.head:
            self.head = {"id": chunk["id"].replace("chatcmpl-", "resp_"), "model": chunk["model"]}
            out += self.begin()
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            self.finish, self.stop = choice.get("finish_reason") or self.finish, choice.get("stop_reason") or self.stop
            delta = choice["delta"]
            for name, kind in (("reasoning_content", "reasoning"), ("content", "text")):
                out += self._grow(kind, {}, delta[name]) if delta.get(name) else []
            for call in delta.get("tool_calls") or ():
                out += self._grow(f"call {call['index']}", call, call["function"].get("arguments") or "")
        return out

    def _grow(self, key: str, call: dict[str, Any], text: str) -> list[dict[str, Any]]:
        out = []
        if key not in self.items:
            item = {
                "place": len(self.items),
                "text": "",
                "id": call.get("id"),
                "name": call.get("function", {}).get("name"),
            }
            self.items[key] = {**item, "kind": key.split()[0]}
            out += self.open(self.items[key])
        self.items[key]["text"] += text
        return out + ([self.piece(self.items[key], text)] if text else [])

    def begin(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def open(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        raise NotImplementedError

    def piece(self, item: dict[str, Any], text: str) -> dict[str, Any]:
        raise NotImplementedError

    def end(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def error(self, error: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def answer(self) -> dict[str, Any]:
        raise NotImplementedError


class Responses(Voice):
    """OpenAI's Responses API."""

    def begin(self) -> list[dict[str, Any]]:
        response = {**self.head, "object": "response", "status": "in_progress", "output": [], "error": None}
        return [{"type": f"response.{word}", "response": response} for word in ("created", "in_progress")]

    def open(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"type": "response.output_item.added", "output_index": item["place"], "item": self._item(item)}]

    def piece(self, item: dict[str, Any], text: str) -> dict[str, Any]:
        kinds = {"text": "output_text", "reasoning": "reasoning_text", "call": "function_call_arguments"}
        place = {"output_index": item["place"], "item_id": f"item_{item['place']}"}
        return {"type": f"response.{kinds[item['kind']]}.delta", **place, "delta": text}

    def end(self) -> list[dict[str, Any]]:
        out = []
        for item in self.items.values():
            place = {"output_index": item["place"], "item_id": f"item_{item['place']}"}
            if item["kind"] == "call":
                out.append({"type": "response.function_call_arguments.done", **place, "arguments": item["text"]})
            out.append({"type": "response.output_item.done", **place, "item": self._item(item)})
        return [*out, {"type": "response.completed", "response": self.answer()}] if self.finish else out

    def error(self, error: dict[str, Any]) -> dict[str, Any]:
        return {"type": "error", "code": "server_error", "message": error.get("message"), "param": None}

    def answer(self) -> dict[str, Any]:
        cut = self.finish == "length"
        details = {"reason": "max_output_tokens"} if cut else None
        output = [self._item(item) for item in self.items.values()]
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
        usage = {name: self.usage.get(theirs) for name, theirs in names.items()}
        state = {"status": "incomplete" if cut else "completed", "incomplete_details": details, "error": None}
        return {**self.head, "object": "response", **state, "output": output, "usage": usage}

    def _item(self, item: dict[str, Any]) -> dict[str, Any]:
        head = {"id": f"item_{item['place']}"}
        if item["kind"] == "call":
            call = {"call_id": item["id"], "name": item["name"], "arguments": item["text"]}
            return {**head, "type": "function_call", **call}
        if item["kind"] == "reasoning":
            return {
                **head,
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": item["text"]}],
            }
        content = [{"type": "output_text", "text": item["text"], "annotations": []}]
        return {**head, "type": "message", "role": "assistant", "content": content}


class Messages(Voice):
    """Anthropic's Messages API."""

    def begin(self) -> list[dict[str, Any]]:
        message = {**self.head, "type": "message", "role": "assistant", "content": [], "stop_reason": None}
        return [{"type": "message_start", "message": {**message, "usage": {"input_tokens": 3, "output_tokens": 0}}}]

    def open(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        block = self._block({**item, "text": "{}" if item["kind"] == "call" else ""})
        return [{"type": "content_block_start", "index": item["place"], "content_block": block}, {"type": "ping"}]

    def piece(self, item: dict[str, Any], text: str) -> dict[str, Any]:
        kind, field = {
            "text": ("text_delta", "text"),
            "reasoning": ("thinking_delta", "thinking"),
            "call": ("input_json_delta", "partial_json"),
        }[item["kind"]]
        return {"type": "content_block_delta", "index": item["place"], "delta": {"type": kind, field: text}}

    def end(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = [{"type": "content_block_stop", "index": i["place"]} for i in self.items.values()]
        if not self.finish:
            return out
        delta = {"stop_reason": _STOPS.get(self.finish, self.finish), "stop_sequence": None}
        return [*out, {"type": "message_delta", "delta": delta, "usage": self._usage()}, {"type": "message_stop"}]

    def error(self, error: dict[str, Any]) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "api_error", "message": error.get("message")}}

    def answer(self) -> dict[str, Any]:
        content = [self._block(item) for item in self.items.values()]
        stop = _STOPS.get(self.finish or "", self.finish)
        return {**self.head, "type": "message", "content": content, "stop_reason": stop, "usage": self._usage()}

    def _usage(self) -> dict[str, Any]:
        return {"input_tokens": self.usage.get("prompt_tokens"), "output_tokens": self.usage.get("completion_tokens")}

    def _block(self, item: dict[str, Any]) -> dict[str, Any]:
        if item["kind"] == "call":
            try:
                arguments = json.loads(item["text"])
            except ValueError:
                arguments = {}
            return {"type": "tool_use", "id": item["id"], "name": item["name"], "input": arguments}
        if item["kind"] == "reasoning":
            return {"type": "thinking", "thinking": item["text"], "signature": ""}
        return {"type": "text", "text": item["text"]}

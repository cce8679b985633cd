"""A scripted OpenAI-compatible server on bare asyncio sockets: real HTTP, with faults below it where a script says."""

import asyncio
import hashlib
import json
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from fakes.answers import Answer, Style, usage_of, whole
from fakes.apis import DOORS, as_chat, speak
from fakes.engine import FakeEngine, Mood
from fakes.faults import JSON_HEADERS, Ask, context_message, make, status, stream
from fakes.law import Law
from fakes.script import Close, End, Head, Raw, Reset, Script, Send, Silence, Step, Until, Wait, framed

Policy = Callable[[Ask], Script]
Mind = Callable[[Ask], Answer | None]
Fixed = tuple[int, str, bytes]
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 64 * 1024 * 1024


@dataclass(slots=True)
class Received:
    """One request as it came in, and how it ended: `hung_up` if the client left before the script was done."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] | None
    ordinal: int | None = None
    hung_up: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class TruthRow:
    """What a right tool must make of one chat request; `attempt` counts from 1 for equal messages and seed."""

    ordinal: int
    session: str | None
    seed: int | None
    attempt: int
    fault: str
    expected: str
    endings: tuple[str, ...]

    def line(self) -> str:
        """Return the row as one line of JSON."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__}) + "\n"


class FakeServer:
    """
    Serves `policy`'s scripts to POST /v1/chat/completions and the usual side doors; an async context manager. At
    /v1/responses and /v1/messages it says the same in their words.

    What `mind` has an answer to gets that and no script, streamed or whole. Anything else that wants no stream is
    answered well. With a `law` the tokens of its answers can be scored.

    `received` lists the requests (the last 100,000), `truth` the expected classes, `fixed[path]` overrides a side door
    with (status, content type, body). `stop()` resets all connections; `start()` afterwards takes the same port again.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        mind: Mind = lambda _: None,
        law: Law | None = None,
        engine: FakeEngine | None = None,
        port: int = 0,
        seed: int = 0,
        style: Style | None = None,
        truth_file: Path | None = None,
        keep_bodies: bool = True,
    ) -> None:
        self.policy: Policy = policy or (law.policy if law else lambda ask: make("none", ask))
        self.law = law
        self._mind = mind
        self.engine = engine or FakeEngine()
        self.port = port
        self.seed = seed
        self.style = style or Style()
        self.received: deque[Received] = deque(maxlen=100_000)
        self.truth: list[TruthRow] = []
        self.fixed: dict[str, Fixed] = {}
        self.keep_bodies = keep_bodies
        self._truth_file = truth_file
        self._events: dict[str, asyncio.Event] = {}
        self._attempts: dict[str, int] = {}
        self._ordinal = 0
        self._kept: dict[str, list[dict[str, Any]]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    @property
    def url(self) -> str:
        """The base URL, without /v1."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Received]:
        """The chat requests received so far."""
        return [request for request in self.received if request.ordinal is not None]

    @property
    def connected(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def event(self, name: str) -> asyncio.Event:
        """Return the event that `Until(name)` waits for."""
        return self._events.setdefault(name, asyncio.Event())

    async def start(self) -> None:
        """Listen; the port is chosen on the first start and kept."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        self.engine.started_at = time.time()

    async def stop(self) -> None:
        """Stop listening and break every connection, as a dying server does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = [connection.task for connection in self._connections]
        for connection in list(self._connections):
            connection.reset()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def ask_for(self, body: dict[str, Any]) -> Ask:
        """Count a chat request in and return what the policy sees of it."""
        identity = json.dumps([body.get("messages"), body.get("seed")], sort_keys=True).encode()
        digest = hashlib.sha256(identity).hexdigest()
        attempt = self._attempts[digest] = self._attempts.get(digest, 0) + 1
        prompt, cached = self.engine.admit(body)
        if self.engine.stale_from is not None and cached >= self.engine.stale_from:
            digest = hashlib.sha256(f"stale {digest}".encode()).hexdigest()
        style = self._style_for(body, digest, prompt, cached)
        ordinal, self._ordinal = self._ordinal, self._ordinal + 1
        rng = random.Random(f"{self.seed}:{digest}")
        return Ask(body=body, rng=rng, style=style, ordinal=ordinal, attempt=attempt)

    def _style_for(self, body: dict[str, Any], digest: str, prompt: int, cached: int) -> Style:
        values = {name: getattr(self.style, name) for name in Style.__slots__}
        options = body.get("stream_options") or {}
        values.update(prompt_tokens=prompt, cached_tokens=cached, model=self.engine.model, id="chatcmpl-" + digest[:24])
        values["usage"] = values["usage"] and bool(options.get("include_usage"))
        values["token_ids"] = self.engine.token_ids and bool(body.get("return_token_ids"))
        values["drafts_of"] = self.engine.num_speculative_tokens if self.engine.tells_drafts else None
        values["logprobs"] = body.get("top_logprobs") or 0 if body.get("logprobs") else None
        return Style(**values)

    def note_truth(self, ask: Ask, script: Script, session: str | None) -> None:
        """Keep what a right tool must say of this request."""
        if script.truth is None:
            return
        truth = script.truth
        seed = ask.body.get("seed")
        row = TruthRow(ask.ordinal, session, seed, ask.attempt, truth.fault, truth.expected, truth.endings)
        self.truth.append(row)
        if self._truth_file is not None:
            with self._truth_file.open("a") as file:
                file.write(row.line())

    def refusal(self, body: dict[str, Any], headers: dict[str, str]) -> Script | None:
        """Return the script of the engine's own refusal of a chat request, or None where it accepts it."""
        engine = self.engine
        if engine.requires_key and headers.get("authorization") != f"Bearer {engine.requires_key}":
            return status(401, "Unauthorized", kind="AuthenticationError")
        if body.get("model") not in engine.models:
            return status(404, f"The model `{body.get('model')}` does not exist.", kind="NotFoundError")
        if body.get("tools") and not engine.native_tools:
            words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            return status(400, words, kind="BadRequestError")
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or 1
        prompt = engine.count(body)
        if prompt + asked > engine.context_tokens:
            return status(400, context_message(engine.context_tokens, prompt, asked), kind="BadRequestError")
        return None

    def chat(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[Script, int | None]:
        """Return the script for one chat request and its ordinal."""
        refused = self.refusal(body, headers)
        if refused is not None:
            return refused, None
        ask = self.ask_for(body)
        known = self._mind(ask)
        if not body.get("stream"):
            answer = known or ask.ordinary()
            self.engine.generated(usage_of(answer, ask.style)["completion_tokens"])
            return _json(200, whole(answer, ask.style), finish=answer.finish), ask.ordinal
        script = self.policy(ask) if known is None else stream(known, ask)
        script.meta["mood"] = self.engine.mood(script.truth.fault if script.truth else "", ask.style.prompt_tokens)
        self.note_truth(ask, script, headers.get("x-session-id"))
        return script, ask.ordinal

    def say(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Script, int | None]:
        """Return the script for one request of another API and its ordinal; a response is gone on from by its id."""
        chat = as_chat(body, self._kept.get(body.get("previous_response_id", ""), []))
        script, ordinal = self.chat(chat, headers)
        script = speak(path, script)
        self._kept[script.meta["answer"]] = chat["messages"]
        return script, ordinal

    def side_door(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Script:
        """Return the script of everything that is not a chat request."""
        if path in self.fixed:
            code, kind, data = self.fixed[path]
            return _plain(code, kind, data)
        engine = self.engine
        if path == "/v1/models" and engine.requires_key:
            refused = self.refusal({"model": engine.model}, headers)
            if refused is not None:
                return refused
        if path == "/metrics" and engine.metrics:
            return _plain(200, "text/plain; version=0.0.4; charset=utf-8", engine.page().encode())
        if path == "/tokenize" and engine.tokenize and method == "POST":
            count = engine.count(body or {})
            tokens = self.law.prompt_ids(body or {}, count) if self.law else []
            return _json(200, {"count": count, "max_model_len": engine.context_tokens, "tokens": tokens})
        opened = self.law.door(path, body or {}, engine.context_tokens) if self.law else None
        if opened is not None:
            return _json(*opened)
        answers: dict[str, Any] = {"/version": {"version": engine.version}, "/v1/models": self._models()}
        if path == "/health":
            return _plain(200, "text/plain", b"")
        if path == "/fake/state":
            hung_up = sum(request.hung_up for request in self.received)
            return _json(200, {"running": engine.running, "chats": self._ordinal, "hung_up": hung_up})
        return _json(200, answers[path]) if path in answers else _json(404, {"detail": "Not Found"})

    def _models(self) -> dict[str, Any]:
        cards = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "vllm",
                "max_model_len": self.engine.context_tokens,
            }
            for name in self.engine.models
        ]
        return {"object": "list", "data": cards}


def _plain(code: int, kind: str, data: bytes, finish: str | None = None) -> Script:
    headers = (("content-type", kind), ("content-length", str(len(data))))
    return Script([Head(code, headers, chunked=False), Raw(data), End()], finish=finish)


def _json(code: int, value: Any, finish: str | None = None) -> Script:
    return _plain(code, JSON_HEADERS[0][1], json.dumps(value).encode(), finish)


class _GoneError(Exception):
    """The client hung up, or the script broke the connection."""


class _Connection(asyncio.Protocol):
    """One client connection: reads requests and plays scripts, one after the other."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.buffer = bytearray()
        self.gone = asyncio.Event()
        self._more = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._chunked = False
        self._closed_by_us = False
        self._mood: Mood = "usual"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport by type
        self.transport = transport
        self.server._connections.add(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._more.set()

    def eof_received(self) -> bool:
        self._lost()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()

    def _lost(self) -> None:
        self.gone.set()
        self._more.set()
        self._writable.set()
        self.server._connections.discard(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def reset(self) -> None:
        """Close with a TCP reset: what a crashed process or a firewall looks like."""
        self._closed_by_us = True
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def _serve(self) -> None:
        try:
            while not self.gone.is_set():
                await self._one_request()
        except _GoneError:
            pass
        finally:
            self.transport.close()

    async def _one_request(self) -> None:
        method, path, headers = await self._read_head()
        data = await self._read_body(int(headers.get("content-length", "0")))
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = None
        request = Received(method, path, headers, body if self.server.keep_bodies else None)
        self.server.received.append(request)
        if path == "/v1/chat/completions" and method == "POST" and isinstance(body, dict):
            script, request.ordinal = self.server.chat(body, headers)
        elif path in DOORS and path not in self.server.fixed and method == "POST" and isinstance(body, dict):
            script, request.ordinal = self.server.say(path, body, headers)
        else:
            script = self.server.side_door(method, path, body, headers)
        await self._answer(request, script)

    async def _answer(self, request: Received, script: Script) -> None:
        engine, counted = self.server.engine, request.ordinal is not None
        engine.running += counted
        self._mood = script.meta.get("mood", "usual")
        try:
            for step in script:
                await self._play(step)
            if counted:
                engine.ended(script.finish)
        except _GoneError:
            request.hung_up = not self._closed_by_us
            if counted:
                engine.ended("abort" if request.hung_up else script.finish)
            raise
        finally:
            engine.running -= counted
            request.done.set()

    async def _read_head(self) -> tuple[str, str, dict[str, str]]:
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if len(self.buffer) > _HEAD_LIMIT:
                raise _GoneError
            await self._read_more()
        lines = bytes(self.buffer[:end]).decode("latin-1").split("\r\n")
        del self.buffer[: end + 4]
        method, path, _ = lines[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in lines[1:])
        return method, path.split("?")[0], {name.lower(): value.strip() for name, value in pairs}

    async def _read_body(self, length: int) -> bytes:
        while len(self.buffer) < min(length, _BODY_LIMIT):
            await self._read_more()
        data = bytes(self.buffer[:length])
        del self.buffer[:length]
        return data

    async def _read_more(self) -> None:
        self._more.clear()
        if self.gone.is_set():
            raise _GoneError
        await self._more.wait()
        if self.gone.is_set():
            raise _GoneError

    async def _play(self, step: Step) -> None:
        if self.gone.is_set():
            raise _GoneError
        match step:
            case Send(data, tokens):
                await self._write(framed(data) if self._chunked else data, tokens)
            case Raw(data, tokens):
                await self._write(data, tokens)
            case Head():
                self._chunked = step.chunked
                await self._write(_head(step))
            case End():
                await self._write(b"0\r\n\r\n" if self._chunked else b"")
            case Wait(seconds):
                await self._pause(seconds)
            case Until(name):
                await self._until(name)
            case Silence(seconds):
                await self._pause(seconds)
                self.reset()
                raise _GoneError
            case Reset():
                self.reset()
                raise _GoneError
            case Close():
                self._closed_by_us = True
                self.transport.close()
                raise _GoneError

    async def _write(self, data: bytes, tokens: int = 0) -> None:
        self.transport.write(data)
        self.server.engine.generated(tokens, self._mood)
        await self._writable.wait()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.gone.wait()
        except TimeoutError:
            return
        raise _GoneError

    async def _until(self, name: str) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self.server.event(name), self.gone)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _head(head: Head) -> bytes:
    lines = [f"HTTP/1.1 {head.status} {_REASONS.get(head.status, 'Status')}", "server: uvicorn"]
    lines += [f"{name}: {value}" for name, value in head.headers]
    if head.chunked:
        lines.append("transfer-encoding: chunked")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

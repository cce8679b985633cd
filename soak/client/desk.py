"""Questions to a server that are not timed: is it there, what is it, what can it do, how long is this prompt."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import msgspec

from soak.client.limits import own_limit
from soak.client.refusal import excerpt
from soak.client.target import Target
from soak.client.wire import encode_body
from soak.errors import UsageError

ASK_S = 10.0
FIRST_ANSWER_S = 120.0
if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_COUNTED = ("model", "messages", "tools", "chat_template_kwargs")
_REPLY_LIMIT_BYTES = 32 * 1024 * 1024


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """
    The whole answer to one question: `error` is set, and the rest empty, where none came.

    `ours` is set where a limit of our own machine kept us from asking.
    """

    status: int | None = None
    headers: dict[str, str] = {}
    body: bytes = b""
    error: str | None = None
    ours: UsageError | None = None

    @property
    def ok(self) -> bool:
        """Whether it was answered with 200."""
        return self.status == 200

    def json(self) -> Any:
        """Return the body's JSON, None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


class NoAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a chat request was not answered: the HTTP status, None if there was none, and a sentence."""

    status: int | None
    why: str


class Desk:
    """
    Asks one target; an async context manager. Each question is bounded in time and size, and a failure is an answer.

    Doors of the engine itself (/health, /tokenize, /metrics) are taken under the base URL, the API under /v1.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, keepalive_timeout=4.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "soak", **self.target.headers()},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def is_up(self) -> bool:
        """
        Whether the server says it is healthy; where it has no /health, whether it lists models.

        True also where a limit of our own machine keeps us from asking: that is no sign of the server's end.
        """
        reply = await self.get("/health")
        if reply.ours is not None:
            return True
        if reply.status in (404, 405, 501):
            reply = await self.get_api("/models")
            return reply.status is not None and reply.status < 500
        return reply.status is not None and reply.status < 400

    async def count_tokens(self, body: dict[str, Any]) -> int | None:
        """Return the prompt tokens of a request body (messages and tools), None where the server cannot count."""
        asked: dict[str, Any] = {name: body[name] for name in _COUNTED if name in body}
        reply = await self.post("/tokenize", {**asked, "add_generation_prompt": True})
        value = reply.json() if reply.ok else None
        count = value.get("count") if isinstance(value, dict) else None
        return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None

    async def metrics(self) -> str | None:
        """Return the text of the engine's metrics page, None if it has none."""
        reply = await self.get("/metrics")
        text = reply.body.decode("utf-8", "replace") if reply.ok else ""
        return text if "# TYPE" in text or "# HELP" in text else None

    async def get(self, path: str) -> Reply:
        """Ask one of the engine's own doors."""
        return await self._ask("GET", self.target.base_url + path)

    async def get_api(self, path: str) -> Reply:
        """Ask one of the API's doors."""
        return await self._ask("GET", self.target.api_url + path)

    async def post(self, path: str, value: dict[str, Any], limit_s: float = ASK_S) -> Reply:
        """Ask one of the engine's own doors, with a JSON body."""
        return await self._ask("POST", self.target.base_url + path, value, limit_s)

    async def post_api(
        self,
        path: str,
        value: dict[str, Any],
        limit_s: float = FIRST_ANSWER_S,
        limit_bytes: int = _REPLY_LIMIT_BYTES,
    ) -> Reply:
        """
        Ask one of the API's doors, with a JSON body; a first answer may take long on a cold engine.

        Raises `UsageError` where the target's meter lets none be sent: this makes the engine compute.
        """
        self._count()
        return await self._ask("POST", self.target.api_url + path, value, limit_s, limit_bytes)

    async def ask(self, body: dict[str, Any]) -> ChatCompletion | NoAnswer:
        """
        Return the answer to one chat request that is not streamed, or why there is none.

        Raises `UsageError` where a limit of our own machine, or the target's meter, kept us from asking.
        """
        self._count()
        import openai  # takes a second, which only those who ask should pay

        from soak.client.sdk import sdk_of

        try:
            async with asyncio.timeout(FIRST_ANSWER_S), sdk_of(self.target) as sdk:
                return await sdk.post("/chat/completions", body=body, cast_to=openai.types.chat.ChatCompletion)
        except (openai.OpenAIError, OSError, ValueError) as error:
            if (ours := own_limit(error)) is not None:
                raise ours from None
            why = excerpt(self.target.scrub(str(error) or type(error).__name__))
            return NoAnswer(status=error.status_code if isinstance(error, openai.APIStatusError) else None, why=why)

    def _count(self) -> None:
        if self.target.meter is not None:
            self.target.meter.send()

    async def _ask(
        self,
        method: str,
        url: str,
        value: Any = None,
        limit_s: float = ASK_S,
        limit_bytes: int = _REPLY_LIMIT_BYTES,
    ) -> Reply:
        assert self._session is not None, "used outside its `async with`"
        options: dict[str, Any] = {"allow_redirects": False, "timeout": aiohttp.ClientTimeout(total=limit_s)}
        if value is not None:
            options.update(data=encode_body(value), headers={"content-type": "application/json"})
        try:
            async with self._session.request(method, url, **options) as response:
                body = await _bounded(response, limit_bytes)
                headers = {name.lower(): text for name, text in response.headers.items()}
                return Reply(status=response.status, headers=headers, body=body)
        except TimeoutError:
            return Reply(error=f"no answer within {limit_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            words = self.target.scrub(_words_of(error))[:300]
            return Reply(error=words, ours=own_limit(error))


def _words_of(error: Exception) -> str:
    """Return why there was no answer; for a server that was not reached the system's words, without the library's."""
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return f"{type(error).__name__}: {error}"
    cause = error.os_error
    number = cause.errno or 0  # negative: of the resolver, whose words are its own
    return os.strerror(number) if number > 0 else cause.strerror or str(cause)


async def _bounded(response: aiohttp.ClientResponse, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size < limit_bytes and (data := await response.content.readany()):
        parts.append(data)
        size += len(data)
    if not response.content.at_eof():
        response.close()
    return b"".join(parts)

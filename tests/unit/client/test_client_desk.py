"""Asking a server what it is."""

import json

import pytest
from fakes import End, FakeEngine, FakeServer, Head, Raw, Script, Send, status

from soak.client import Desk, NoAnswer, Target, discover
from soak.errors import TargetError
from soak.facts import Capabilities

PAGE = (200, "text/html", b"<html>hello</html>")


async def found(server: FakeServer, **options: str) -> Capabilities:
    """Return what is discovered of a server."""
    async with Desk(Target.parse(server.url, **options)) as desk:
        return await discover(desk)


async def refusal(server: FakeServer, **options: str) -> TargetError:
    """Return the error with which discovery ends."""
    with pytest.raises(TargetError) as caught:
        await found(server, **options)
    assert caught.value.exit_code == 5
    return caught.value


async def test_a_capable_server_is_described() -> None:
    """Model, engine, version, context, metrics, ids, logprobs, tools and counting are found by asking."""
    async with FakeServer() as server:
        assert await found(server) == Capabilities(
            model="fake-model",
            models=("fake-model",),
            engine="vllm",
            version="0.32.0",
            context_tokens=131_072,
            metrics=True,
            token_ids=True,
            logprobs=True,
            native_tools=True,
            counts_tokens=True,
            cached_tokens=True,
        )


async def test_a_bare_server_is_described() -> None:
    """What a server lacks is said to be lacking, not guessed."""
    engine = FakeEngine(metrics=False, tokenize=False, token_ids=False, native_tools=False)
    async with FakeServer(engine=engine) as server:
        server.fixed["/version"] = (404, "application/json", b"{}")
        bare = await found(server)
    assert (bare.metrics, bare.counts_tokens, bare.token_ids, bare.native_tools) == (False, False, False, False)
    assert bare.version is None
    assert "--enable-auto-tool-choice" in bare.notes[0]


async def test_a_template_that_ignores_tools_is_noticed() -> None:
    """Tools accepted but absent from the prompt are no native tools."""
    async with FakeServer(engine=FakeEngine(template_ignores_tools=True)) as server:
        assert not (await found(server)).native_tools


async def test_the_model_is_asked_for_where_there_is_a_choice() -> None:
    """Several models and none named: the error lists them; one named is taken; one unknown is refused."""
    async with FakeServer(engine=FakeEngine(more_models=("other",))) as server:
        error = await refusal(server)
        assert "fake-model, other" in error.why
        assert "--model" in error.hint
        assert (await found(server, model="other")).model == "other"
        assert "nowhere" in (await refusal(server, model="nowhere")).what


async def test_a_model_that_is_not_listed_is_refused_with_near_names() -> None:
    """A server that would answer any name is still not asked for one it does not list; near names are shown."""
    async with FakeServer(engine=FakeEngine(more_models=("llama-8b", "llama-70b"))) as server:
        server.policy = lambda ask: status(418, "was asked")
        error = await refusal(server, model="llama-7b")
        assert "llama-7b" in error.what
        assert "it lists 3: llama-70b, llama-8b" in error.why
        assert "fake-model" not in error.why
        assert "--model" in error.hint
        assert not server.chats


async def test_ten_thousand_models_are_all_known() -> None:
    """The count is right, and a model far down the list has its context length."""
    cards = [{"id": "fake-model" if at == 9000 else f"m{at}", "max_model_len": at + 1} for at in range(10_000)]
    async with FakeServer() as server:
        server.fixed["/v1/models"] = (200, "application/json", json.dumps({"data": cards}).encode())
        assert "it lists 10000: m0, m1" in (await refusal(server)).why
        found_ = await found(server, model="fake-model")
        assert found_.context_tokens == 9001
        assert len(found_.models) == 1000


async def test_a_key_repeated_in_a_page_is_not_shown() -> None:
    """A page, its content type and a stream that repeat the key do not get it into an error."""
    key = "sk-very-secret-1234"
    async with FakeServer() as server:
        server.fixed["/v1/models"] = (500, f"text/{key}", f"no {key}".encode())
        error = await refusal(server, api_key=key)
        assert "no ***" in error.why
        assert key not in "".join(error.lines())
        del server.fixed["/v1/models"]
        server.policy = lambda ask: Script([Head(), Send(f"data: you sent {key}\n\n".encode()), End()])
        error = await refusal(server, api_key=key)
        assert "you sent ***" in error.why


async def test_a_key_is_asked_for() -> None:
    """A 401 says whether a key was missing or wrong, and never shows it."""
    async with FakeServer(engine=FakeEngine(requires_key="right")) as server:
        assert "no key" in (await refusal(server)).why
        error = await refusal(server, api_key="wrong-one")
        assert "refused" in error.why
        assert "wrong-one" not in "".join(error.lines())
        assert (await found(server, api_key="right")).model == "fake-model"


async def test_what_is_not_openai_compatible_is_named() -> None:
    """A page, a 404, JSON of another shape and no models each end in an error of three lines."""
    async with FakeServer() as server:
        for answer in (PAGE, (404, "text/plain", b"not here"), (200, "application/json", b"[1]")):
            server.fixed["/v1/models"] = answer
            assert "not an OpenAI-compatible" in (await refusal(server)).what
        server.fixed["/v1/models"] = (200, "application/json", b'{"data": []}')
        assert "lists none" in (await refusal(server)).why


async def test_a_server_that_does_not_stream_is_named() -> None:
    """Events without a choice are not taken for a stream of answers."""
    async with FakeServer() as server:
        head = Head(200, (("content-type", "text/html"), ("content-length", str(len(PAGE[2])))), chunked=False)
        server.policy = lambda ask: Script([head, Raw(PAGE[2])])
        assert "does not stream" in (await refusal(server)).what


async def test_nobody_there_is_an_error_of_three_lines() -> None:
    """A refused connection is a TargetError, and the server is not up."""
    server = FakeServer()
    await server.start()
    await server.stop()
    error = await refusal(server)
    assert "cannot reach" in error.what
    assert len(error.lines()) == 3
    async with Desk(Target.parse(server.url)) as desk:
        assert not await desk.is_up()
        assert await desk.metrics() is None
        assert await desk.count_tokens({"messages": []}) is None


async def test_health_is_asked_and_models_where_there_is_none() -> None:
    """A server without /health is up if it lists models; one whose /health fails is not."""
    async with FakeServer() as server, Desk(Target.parse(server.url)) as desk:
        assert await desk.is_up()
        server.fixed["/health"] = (404, "text/plain", b"")
        assert await desk.is_up()
        server.fixed["/health"] = (503, "text/plain", b"")
        assert not await desk.is_up()


async def test_a_single_request_is_answered_whole() -> None:
    """`ask` gives the whole answer of a request that is not streamed, or the reason why there is none."""
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "hi"}]}
    async with FakeServer() as server, Desk(Target.parse(server.url)) as desk:
        answer = await desk.ask(body)
        assert not isinstance(answer, NoAnswer)
        assert answer.choices[0].message.content
        refused = await desk.ask({**body, "model": "nowhere"})
        assert isinstance(refused, NoAnswer)
        assert refused.status == 404
        assert "nowhere" in refused.why

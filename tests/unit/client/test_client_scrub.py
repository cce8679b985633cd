"""What is taken out of a server's words, and what is left as it came."""

from collections.abc import Callable

import pytest
from fakes import Answer, Call, FakeServer, status, stream

from soak.classify import Context, TurnJudge, judge
from soak.client import Exchange, Request, Scrub, Target, WireClient
from soak.client.sdk import SdkClient

Make = Callable[..., Request]
LONG = "sk-0123456789abcdef"
TEXT = 'None of the tests failed: test "the" EMPTY list, none. '


async def told(fake: FakeServer, key: str, request: Request, judge_: TurnJudge | None = None) -> Exchange:
    """Return the exchange of a client with this key; its chunks go to `judge_`."""

    def sink(chunk: object) -> bool:
        if judge_ is not None:
            judge_.push(chunk)  # type: ignore[arg-type]
        return False

    async with WireClient(Target.parse(fake.url, api_key=key)) as client:
        return await client.exchange(request, sink)


@pytest.mark.parametrize("key", ["test", "none", "EMPTY", "the", '"'])
async def test_an_ordinary_word_as_key_changes_nothing(fake: FakeServer, request_for: Make, key: str) -> None:
    """With a key that is a word, content, reasoning, arguments and raw bytes are stored as they came."""
    answer = Answer(content=TEXT, reasoning=TEXT, calls=(Call("bash", '{"command": "test the none"}', "a"),))
    fake.policy = lambda ask: stream(answer, ask)
    plain, keyed = [await told(fake, one, request_for()) for one in ("", key)]
    for name in ("content", "reasoning", "tool_calls", "finish_reason"):
        assert getattr(keyed.observation, name) == getattr(plain.observation, name)
    assert keyed.observation.content == TEXT
    assert keyed.raw.count(b'"delta"') == plain.raw.count(b'"delta"')
    assert b"***" not in keyed.raw


async def test_a_short_key_is_scrubbed_after_its_scheme_only(fake: FakeServer, request_for: Make) -> None:
    """`Bearer <key>` is scrubbed for any key, but not where the key is the head of a longer word."""
    fake.policy = lambda ask: status(418, "test: Bearer test, Bearer tests")
    exchange = await told(fake, "test", request_for())
    assert exchange.observation.error == "HTTP 418: test: Bearer ***, Bearer tests"
    assert b"Bearer ***, Bearer tests" in exchange.raw


async def test_a_middling_key_leaves_the_models_text(fake: FakeServer, request_for: Make) -> None:
    """A key of 8 to 15 characters is scrubbed from errors and raw bytes, not from what the model wrote."""
    fake.policy = lambda ask: stream(Answer(content="my password1 is long"), ask, tokens_per_chunk=99)
    exchange = await told(fake, "password1", request_for())
    assert exchange.observation.content == "my password1 is long"
    assert b"password1" not in exchange.raw
    fake.policy = lambda ask: status(418, "password1?")
    assert (await told(fake, "password1", request_for())).observation.error == "HTTP 418: ***?"


async def test_what_is_judged_is_what_is_stored(fake: FakeServer, request_for: Make) -> None:
    """A real key in the answer is scrubbed from it, and live and offline come to the same judgement."""
    said = f"The key is {LONG}. " * 60
    fake.policy = lambda ask: stream(Answer(content=said, reasoning=LONG, calls=(Call("f", LONG, "a"),)), ask)
    context = Context(prompt_text="", max_tokens=200)
    live = TurnJudge(context)
    observation = (await told(fake, LONG, request_for(), live)).observation
    assert observation.content == said.replace(LONG, "***")
    assert (observation.reasoning, observation.tool_calls[0].arguments) == ("***", "***")
    assert live.finish(observation) == judge(observation, context)


async def test_raw_bytes_that_are_not_utf8_survive(fake: FakeServer, request_for: Make) -> None:
    """Raw bytes are scrubbed as bytes: what is no UTF-8 around a key stays as it was."""
    scrub = Target.parse(fake.url, api_key='sk-"0123456').scrubber()
    assert scrub.raw(b'\xff\x80 sk-"0123456 sk-\\"0123456 \xe9') == b"\xff\x80 *** *** \xe9"
    assert scrub.words('a\ud800 sk-"0123456') == "a\ud800 ***"


def test_the_parts_of_basic_authentication_are_known() -> None:
    """The password, user:password and their base64 are scrubbed, a password too short to be one is not."""
    target = Target.parse("http://bob:hunter2%21@h")
    assert target.scrub("hunter2! bob:hunter2! Ym9iOmh1bnRlcjIh bob") == "*** *** *** bob"
    short = Target.parse("http://bob:the@h")
    assert short.scrub("the bob:thea Basic Ym9iOnRoZQ==") == "the bob:thea Basic ***"


@pytest.mark.parametrize("client_class", [WireClient, SdkClient])
async def test_both_paths_scrub(fake: FakeServer, request_for: Make, client_class: type[WireClient]) -> None:
    """On either path a repeated key is taken out of the error and the bytes."""
    fake.policy = lambda ask: status(418, f"bad {LONG}")
    async with client_class(Target.parse(fake.url, api_key=LONG)) as client:
        exchange = await client.exchange(request_for(), lambda chunk: False)
    assert exchange.observation.error == "HTTP 418: bad ***"
    assert LONG.encode() not in exchange.raw


def test_what_is_asked_loses_real_keys_and_no_words() -> None:
    """A key of 16 characters goes from a request's text; a placeholder such as `anything` is a word and stays."""
    assert Scrub(api_key="anything", basic=None).asked(b'"do anything"') == b'"do anything"'
    long = Scrub(api_key=None, basic=None, others=("sk-0123456789abcdef",))
    assert long.asked(b'"key sk-0123456789abcdef!"') == b'"key ***!"'

"""The small parts: context refusals, pauses, excerpts, loop lag, kept bytes."""

import asyncio
import time
from email.utils import formatdate

import pytest

from soak.client import LoopLag, context_limit_of
from soak.client.attempt import RawBytes
from soak.client.refusal import excerpt, retry_after_s

REFUSALS = {
    "vLLM, messages and completion": (
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        (8192, 8000),
    ),
    "vLLM, passed": (
        "You passed 31745 input tokens and requested 1024 output tokens. However, the model's context length is only "
        "32768 tokens, resulting in a maximum input length of 31744 tokens. Please reduce the length of the input "
        "prompt. (parameter=input_tokens, value=31745)",
        (32768, 31745),
    ),
    "vLLM, max_tokens too large": (
        "'max_tokens' or 'max_completion_tokens' is too large: 20000. This model's maximum context length is 8192 "
        "tokens and your request has 100 input tokens (20000 > 8192 - 100).",
        (8192, 100),
    ),
    "vLLM, decoder prompt": (
        "The decoder prompt (length 88049) is longer than the maximum model length of 32768. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        (32768, 88049),
    ),
    "OpenAI": (
        "This model's maximum context length is 4097 tokens. However, your messages resulted in 6164 tokens.",
        (4097, 6164),
    ),
    "SGLang, sum": (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of "
        "9000 tokens: 8000 tokens from the input messages and 1000 tokens for the completion.",
        (8192, 8000),
    ),
    "SGLang, input": ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", (8192, 9000)),
    "llama.cpp": (
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        (8192, 9000),
    ),
}


@pytest.mark.parametrize("engine", REFUSALS)
def test_context_refusals_are_read(engine: str) -> None:
    """Limit and prompt tokens are found in each engine's words, also behind a status and in one line."""
    text, numbers = REFUSALS[engine]
    assert context_limit_of(f"HTTP 400: {text}") == numbers


@pytest.mark.parametrize(
    "text", ["", "Rate limit exceeded", "max_tokens must be at least 1, got -3", "context length is 9" + "9" * 50]
)
def test_other_refusals_are_not_mistaken(text: str) -> None:
    """Anything else gives None."""
    assert context_limit_of(text) is None


def test_pauses_are_read_from_seconds_and_dates() -> None:
    """Retry-After may be seconds or a date; nonsense is no pause."""
    assert retry_after_s("1.5") == 1.5
    later = retry_after_s(formatdate(time.time() + 60, usegmt=True))
    assert later is not None
    assert 50 < later <= 61
    assert retry_after_s(formatdate(time.time() - 60, usegmt=True)) == 0.0
    assert [retry_after_s(text) for text in (None, "", "soon", "-1", "nan", "inf")] == [None] * 6


def test_an_excerpt_is_one_short_line() -> None:
    """Line breaks become spaces and the length is bounded."""
    assert excerpt("a\nb\r\n  c") == "a b c"
    assert len(excerpt("x" * 10_000)) == 2000


def test_kept_bytes_are_head_and_tail() -> None:
    """Up to the limit all bytes are kept; beyond it the first and the last half."""
    short, long = RawBytes(limit=10), RawBytes(limit=10)
    for data in (b"abc", b"defg"):
        short.add(data)
    for start in range(0, 26, 3):
        long.add(b"abcdefghijklmnopqrstuvwxyz"[start : start + 3])
    assert (short.joined(), short.truncated) == (b"abcdefg", False)
    assert (long.joined(), long.truncated, long.total) == (b"abcdevwxyz", True, 26)


def test_lag_is_the_worst_since_a_moment() -> None:
    """`since` looks only at ticks from that moment on, and old ones are forgotten."""
    lag = LoopLag(keep_s=100)
    for at, late in ((1, 50.0), (2, 5.0), (3, 9.0), (4, 1.0)):
        lag.note(at, late)
    assert [lag.since(at) for at in (0, 1.5, 3.5, 9)] == [50.0, 9.0, 1.0, 0.0]
    lag.note(103.5, 2.0)
    assert lag.since(0) == 2.0


async def test_a_blocked_loop_shows_as_lag() -> None:
    """When our own code holds the loop for 200 ms, the lag says so, even before the next tick."""
    lag = LoopLag()
    lag.start()
    begun = time.perf_counter()
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - the fault under test
    assert lag.since(begun) > 100
    lag.stop()

"""What hostile answers may cost: memory and work are bounded, whatever an answer holds."""

import tracemalloc
from collections.abc import Callable

import pytest
from unit.classify.planted import library_text, token_ids
from unit.classify.turns import answer

from soak.classify import DEFAULTS, Context, TurnJudge, judge, likeness
from soak.classify.markup import find_leak
from soak.classify.pieces import Cuts
from soak.classify.stream import Stream
from soak.facts import Chunk, ToolCall, ToolCallDelta

UNITS = ("the of ", "\ud800a", '{"a":', "x\n", "<think>", "```\n", "\x00 ", '\\"', "\u4e86", "1 2 ")


def peak_mb(work: Callable[[], object]) -> float:
    """Return the most memory that `work` held at once, in MB."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", ["a", "the of "])
def test_hundred_megabytes(unit: str) -> None:
    """A hundred million characters are judged from their first two million and their end."""
    text = unit * (100_000_000 // len(unit))
    judgement = judge(answer(text, "length"), Context())
    assert judgement.class_ == "garbage_loop"
    assert judgement.findings[0].onset_char >= len(text) - DEFAULTS.max_chars


@pytest.mark.parametrize("unit", UNITS)
def test_memory_does_not_grow_with_the_answer(unit: str) -> None:
    """With bounds a twentieth of the real ones, three million characters of anything take a few megabytes."""
    settings = DEFAULTS.override({"watched_chars": 100_000, "max_chars": 20_000})
    observation = answer(unit * (3_000_000 // len(unit)), "length")
    # A stripped copy of the whole, of up to four bytes a character, is made; nothing else of that size.
    assert peak_mb(lambda: judge(observation, Context(), settings)) < 20


def test_only_the_bounds_are_watched() -> None:
    """The trackers stop at their bounds, live as offline, and a loop beyond them is found at the end."""
    settings = DEFAULTS.override({"watched_chars": 50_000, "watched_tokens": 5_000, "max_chars": 40_000})
    text = "".join(library_text(at) for at in range(4)) + "the lamp is on again, " * 4000
    live = TurnJudge(Context(), settings)
    for at in range(0, len(text), 1000):
        assert live.push(Chunk(content=text[at : at + 1000])) is None
    judgement = live.finish(answer(text, "length"))
    assert judgement == judge(answer(text, "length"), Context(), settings)
    assert judgement.class_ == "garbage_loop"
    assert judgement.findings[0].detected_at is None
    ids = token_ids(text)
    observation = answer(text, "length", token_ids=ids)
    stream = Stream.of(observation, Cuts(ids), settings)
    assert all(tracker.seen <= 5_000 for _, tracker in stream.trackers())


@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"a', "", '["lamp"]'])
def test_a_million_calls(arguments: str) -> None:
    """A million equal calls are a loop, whatever their arguments, and the findings stay few."""
    observation = answer("", "tool_calls", tool_calls=(ToolCall(id="c", name="run", arguments=arguments),) * 1_000_000)
    judgement = judge(observation, Context())
    assert judgement.class_ == "garbage_loop"
    assert len(judgement.findings) <= 16


def test_many_channels_live() -> None:
    """A stream that opens ten thousand calls is watched in the first 32."""
    live = TurnJudge(Context())
    for index in range(-5, 10_000):
        live.push(Chunk(tool_calls=(ToolCallDelta(index=index, arguments='{"path": "a.py"}'),)))
    assert len(live._stream.texts) == 32


@pytest.mark.parametrize("with_ids", [True, False])
def test_memory_of_a_stream(with_ids: bool) -> None:
    """A judge holds at most 2 MB after 20,000 tokens that hardly repeat, and no more after 80,000."""
    text = "".join(library_text(at) for at in range(10))
    ids = token_ids(text)
    live = TurnJudge(Context())
    held: list[float] = []
    tracemalloc.start()
    for at in range(0, 80_000, 16):
        if at == 20_000:
            held.append(tracemalloc.get_traced_memory()[0] / 1e6)
        start = 4 * at % (len(text) - 64)
        numbers = tuple(number + at for number in ids[at % (len(ids) - 16) :][:16]) if with_ids else ()
        live.push(Chunk(content=text[start : start + 64], token_ids=numbers))
    held.append(tracemalloc.get_traced_memory()[0] / 1e6)
    tracemalloc.stop()
    assert max(held) < 2, held


@pytest.mark.parametrize("unit", [" ", "\n", "<tool_call>"])
def test_a_flood_inside_a_call_in_the_text_is_read_once(unit: str) -> None:
    """A call in the text that never becomes JSON is judged whatever floods it; work that squares would never end."""
    flood = unit * (400_000 // len(unit))
    assert judge(answer(f"<tool_call>x{flood}y", "length"), Context(tool_mode="text")).class_ != "ok"


def test_markup_that_the_prompt_knows_is_looked_up_once() -> None:
    """An answer of nothing but a known template token is judged beside a deep prompt that ends on it."""
    looks: list[str] = []

    class Prompt(str):
        """A text that counts how often it is searched."""

        def __contains__(self, wanted: str) -> bool:  # type: ignore[override]
            looks.append(wanted)
            return super().__contains__(wanted)

    assert find_leak("<|im_end|>" * 1000, (Prompt("all is well<|im_end|>"),)) is None
    assert looks == ["<|im_end|>"]


def test_pipes_of_a_looping_model_are_compared() -> None:
    """A command with hundreds of pipes into `head` is compared; trying all ways to part them would never end."""
    piped = "ls" + " | head" * 500
    assert likeness(piped, "ls") == 1.0
    assert likeness(f"{piped} x", "ls") < 0.1

"""The file of scores: what comes back, and what is refused."""

import itertools
import math
import struct

import pytest

from soak.errors import InputError
from soak.facts import (
    NO_TOKEN,
    Mark,
    RescoredOutput,
    RescoringCard,
    Sampling,
    SamplingLaw,
    TurnKey,
    rescored_output,
    sampling_law,
)
from soak.facts.rescoring import from_lines, to_lines

CARD = RescoringCard(model="m", role="candidate", sampled_by="speculating", scored_by="plain", vocabulary=100)
KEY = TurnKey(episode="e", turn=3, pass_=0, arm="candidate")


def an_output(tokens: int = 2) -> RescoredOutput:
    """Return an output whose sampled tokens are the last of three entries."""
    return rescored_output(
        KEY,
        SamplingLaw(top_p=0.95),
        prompt_tokens=7,
        width=4,
        token_ids=[5] * tokens,
        logprobs=[-2.5] * tokens,
        ranks=[2] * tokens,
        top=[[(5, -2.5), (9, -0.1), (8, -1.0)]] * tokens,
        forced=((0, 1),) if tokens else (),
        marks=(Mark(position=-3, kind="cache_boundary"),),
    )


def test_rows_are_sorted_and_filled_up() -> None:
    """The tables hold the most probable first, and a shorter row ends in NO_TOKEN and −inf."""
    output = an_output(1)
    assert struct.unpack("<4I", output.top_ids) == (9, 8, 5, NO_TOKEN)
    assert struct.unpack("<4f", output.top_logprobs) == pytest.approx((-0.1, -1.0, -2.5, -math.inf))


def test_what_is_written_is_read() -> None:
    """Card and outputs come back equal, an empty output too."""
    outputs = [an_output(), an_output(0)]
    card, back = from_lines(to_lines(CARD, outputs), "scores.jsonl")
    assert card == CARD
    assert list(back) == outputs


def test_a_cut_file_is_the_lines_before_the_cut() -> None:
    """A file cut at any byte after its card gives exactly the whole lines before it."""
    lines = list(to_lines(CARD, [an_output(1), an_output(2)]))
    whole = b"".join(lines)
    ends = list(itertools.accumulate(map(len, lines)))
    for cut in range(ends[0], len(whole) + 1, 7):
        _, back = from_lines(whole[:cut].splitlines(keepends=True), "scores.jsonl")
        assert len(list(back)) == sum(end <= cut for end in ends[1:])


@pytest.mark.parametrize(
    "line",
    [b"{}\n", b"[" * 100_000 + b"\n", b"\xff\n", b'{"key": 1}\n'],
)
def test_a_wrong_line_is_named(line: bytes) -> None:
    """A line that is not an output is refused with its number."""
    _, back = from_lines([*to_lines(CARD, []), line], "scores.jsonl")
    with pytest.raises(InputError, match="line 2 of scores"):
        list(back)


def test_tables_that_do_not_fit_are_refused() -> None:
    """An output whose tables disagree about the number of tokens is refused."""
    text = next(itertools.islice(to_lines(CARD, [an_output(2)]), 1, None)).replace(b'"width":4', b'"width":5')
    _, back = from_lines([*to_lines(CARD, []), text], "scores.jsonl")
    with pytest.raises(InputError) as caught:
        list(back)
    assert "top_ids" in caught.value.why


def test_a_file_of_another_schema_is_refused() -> None:
    """A first line that is not a card of this schema is refused."""
    for first in (b'{"schema":"other/1"}\n', next(iter(to_lines(CARD, []))).replace(b"rescoring/1", b"rescoring/9")):
        with pytest.raises(InputError):
            from_lines([first], "scores.jsonl")


def test_what_the_server_decides_is_named() -> None:
    """Penalties and settings left to the server are named as what cannot be undone; a neutral penalty is not."""
    law = sampling_law(Sampling(temperature=None, top_p=0.9, presence_penalty=0.5, repetition_penalty=1.0))
    assert law.altered == ("temperature left to the server", "presence_penalty")
    assert sampling_law(Sampling(top_k=-1)) == SamplingLaw(top_p=0.95)

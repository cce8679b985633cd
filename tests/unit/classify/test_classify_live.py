"""While the answer streams: one signal per loop, none for what is explained or ended."""

import random

import numpy as np
import pytest
from unit.classify.planted import honest_prose, library_text, token_ids
from unit.classify.turns import answer

from soak.classify import DEFAULTS, Context, TurnJudge
from soak.classify.explain import LIVE_SCAN_CHARS, Explanation, _spread
from soak.classify.pieces import Pieces, distances
from soak.classify.tracker import ID_GRAM, PIECE_GRAM, Tracker, may_notice
from soak.facts import Chunk, Message, Signal, ToolCallDelta

SENTENCE = "The slice ends one row late, so the last row is read twice. "


def signals(text: str, context: Context | None = None, *, ids: bool = False, size: int = 7) -> list[Signal]:
    """Return the signals of a text sent in chunks of `size` characters or tokens."""
    judge = TurnJudge(context or Context())
    tokens = token_ids(text)
    if ids:
        width = len(text) // len(tokens) + 1
        chunks = [
            Chunk(
                content=text[k * size * width : (k + 1) * size * width] or "x",
                token_ids=tokens[k * size : (k + 1) * size],
            )
            for k in range(len(tokens) // size + 1)
        ]
    else:
        chunks = [Chunk(content=text[at : at + size]) for at in range(0, len(text), size)]
    return [signal for chunk in chunks if (signal := judge.push(chunk)) is not None]


@pytest.mark.parametrize("ids", [True, False])
def test_one_signal_per_loop(ids: bool) -> None:
    """A loop gives one signal, soon after it is certain, and a second loop after honest text a second one."""
    lead = honest_prose(random.Random(4), 4000)
    once = signals(lead + SENTENCE * 200, ids=ids)
    assert len(once) == 1
    assert once[0].certain
    assert once[0].at_token < len(token_ids(lead)) * 3 + 2000
    assert len(signals(SENTENCE * 200 + library_text(1)[:30_000] + "again the lamp " * 900, ids=ids)) == 2


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_a_signal_comes_when_the_loop_is_certain(ids: bool, size: int) -> None:
    """Calm text is looked at seldom, but a loop is told within two small blocks of the token that made it certain."""
    text = honest_prose(random.Random(6), 5000) + SENTENCE * 200
    (signal,) = signals(text, ids=ids, size=size if ids else 4 * size)
    stored = answer(text, "length", token_ids=token_ids(text) if ids else None)
    judgement = TurnJudge(Context()).finish(stored)
    certain_at = judgement.findings[0].detected_at
    assert certain_at is not None
    assert 0 <= signal.at_token - certain_at <= 64


def told_at(chunks: list[Chunk], tokens_per_s: float) -> int:
    """Return the number of the chunk with which the first signal came, at one token a chunk and so many a second."""
    judge = TurnJudge(Context())
    return next(n for n, chunk in enumerate(chunks) if judge.push(chunk, 1000.0 + n / tokens_per_s) is not None)


@pytest.mark.parametrize("ids", [True, False])
def test_a_signal_comes_within_a_second_of_certainty(ids: bool) -> None:
    """On a server of any speed the signal comes less than a second after the chunk that made the loop certain."""
    text = honest_prose(random.Random(7), 4000) + SENTENCE * 150
    tokens = token_ids(text)
    width = len(text) / len(tokens)
    chunks = [
        Chunk(content=text[round(n * width) : round((n + 1) * width)], token_ids=(token,) if ids else ())
        for n, token in enumerate(tokens)
    ]
    certain = told_at(chunks, 0.1)  # every chunk is looked at when it comes
    for tokens_per_s in (0.5, 1.9, 3, 10, 40, 200, 2000):
        assert 0 <= told_at(chunks, tokens_per_s) - certain < tokens_per_s


def test_honest_text_gives_none() -> None:
    """Ten files of code give no signal."""
    assert signals("".join(library_text(at)[:20_000] for at in range(10)), size=64) == []


def test_explained_loop_gives_none() -> None:
    """What the recorded answer repeats too is no news."""
    text = SENTENCE * 200
    assert signals(text, Context(reference=Message(role="assistant", content=text))) == []


@pytest.mark.parametrize("ids", [True, False])
def test_deep_prompt_explains(ids: bool) -> None:
    """In a prompt of 400,000 characters the looped sentence excuses a loop as long as itself, and not a longer one."""
    deep = "".join(library_text(at) for at in range(10))[:400_000]
    assert len(signals(SENTENCE * 200, Context(prompt_text=deep), ids=ids)) == 1
    assert len(signals(SENTENCE * 200, Context(prompt_text=deep + SENTENCE * 5), ids=ids)) == 1
    assert signals(SENTENCE * 200, Context(prompt_text=SENTENCE * 220 + deep), ids=ids) == []


def test_explanation_reads_a_bounded_part() -> None:
    """A look at a loop searches the prompt for a few samples, the fewer the deeper it is, and no less than four."""
    pieces = Pieces(SENTENCE * 60)
    text = library_text(0)[:50_000] + "漢"
    for copies in (1, 20, 100):
        explanation = Explanation(Context(prompt_text=text * copies))
        assert sum(map(len, explanation.sources)) <= 1_000_000
        assert explanation.paid_share(pieces, 0, len(pieces), masked=False, scan_chars=LIVE_SCAN_CHARS) == 0.0
    assert len(_spread(10_000, "x" * 1_000_000, LIVE_SCAN_CHARS)) == 4
    assert len(_spread(10_000, "x" * 1_000, LIVE_SCAN_CHARS)) == 64
    assert _spread(3, "x", LIVE_SCAN_CHARS) == [0, 1, 2]


def test_data_needs_more() -> None:
    """Rows of zeros give a signal only with four times the evidence."""
    assert signals("0, 0, 0, 0,\n" * 60) == []
    assert len(signals("0, 0, 0, 0,\n" * 2000, size=50)) == 1


def test_reasoning_and_arguments_are_watched() -> None:
    """Loops in reasoning and in each tool call are noticed too."""
    judge = TurnJudge(Context())
    got = [judge.push(Chunk(reasoning=SENTENCE)) for _ in range(200)]
    assert sum(signal is not None for signal in got) == 1
    judge = TurnJudge(Context())
    delta = (ToolCallDelta(index=3, arguments="grep -rn lamp . ; "),)
    got = [judge.push(Chunk(tool_calls=delta)) for _ in range(400)]
    assert sum(signal is not None for signal in got) == 1


def test_ids_that_stop_coming() -> None:
    """If a chunk comes without ids the text is watched from there on, and the end decides by what was stored."""
    judge = TurnJudge(Context())
    judge.push(Chunk(content="a", token_ids=(1,)))
    for _ in range(200):
        judge.push(Chunk(content=SENTENCE))
    assert judge.finish(answer("a" + SENTENCE * 200)).class_ == "garbage_loop"


def test_stored_answer_decides() -> None:
    """If something else was stored than was pushed, the stored answer is judged."""
    judge = TurnJudge(Context())
    judge.push(Chunk(content="Something else entirely."))
    assert judge.finish(answer(SENTENCE * 90)).class_ == "garbage_loop"


@pytest.mark.parametrize("gram", [ID_GRAM, PIECE_GRAM])
def test_what_cannot_loop_is_skipped_rightly(gram: int) -> None:
    """Where the offline reading skips the tracker, the tracker would have noticed nothing."""
    rng = random.Random(3)
    skipped = 0
    for _ in range(120):
        tokens: list[int] = []
        while len(tokens) < 3000:
            unit = [rng.randrange(1, 4000) for _ in range(rng.choice([1, 2, 5, 30, 300]))]
            tokens += [rng.randrange(1, 90_000) for _ in range(rng.randrange(900))]
            tokens += (unit * 700)[: rng.randrange(20, 700)]
        tracker = Tracker(DEFAULTS, gram)
        tracker.feed(tokens)
        if not may_notice(distances(np.array(tokens), gram), DEFAULTS):
            skipped += 1
            assert tracker.loops == []
    assert 10 < skipped < 110


def test_tracker_memory_is_bounded() -> None:
    """After a quarter of a million different tokens the tracker holds no more than its horizon."""
    tracker = Tracker(DEFAULTS)
    for start in range(0, 250_000, 1000):
        tracker.feed(list(range(start, start + 1000)))
    assert tracker.seen == 250_000
    assert len(tracker._recent) <= 12_000
    assert len(tracker._new) + len(tracker._old) <= 12_000

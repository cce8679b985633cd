"""Laws of the classifier: cuts do not matter, live equals offline, what is certain stays said, nothing crashes it."""

import json
import random
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.classify.planted import NEAR, SALAD, honest_prose, planted, planted_exact, token_ids
from unit.classify.turns import answer

from soak.classify import Context, TurnJudge, judge
from soak.classify.pieces import Splitter, split
from soak.facts import Chunk, Observation, ToolCall, ToolCallDelta, encode

KINDS = st.sampled_from([*NEAR, *SALAD, "exact", "honest"])
HOSTILE = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["\x00", "\ud800", "\udc00x", "```", "<tool_call>", "{" * 40, '"', "\\", "0" * 30, "\n" * 30, "é\u0301", "\ufeff"]
)
FINISHES = st.sampled_from(["stop", "length", "tool_calls", "repetition", "abort", "weird", None])


def text_of_kind(kind: str, seed: int) -> str:
    rng = random.Random(seed)
    if kind == "honest":
        return honest_prose(rng, 3000)
    if kind == "exact":
        return planted_exact(rng, rng.choice([1, 3, 20, 90]), 500, 400).text
    return planted(rng, kind, 500, 400).text


def cut(text: str, points: list[float]) -> list[str]:
    """Cut `text` at these fractions of its length."""
    edges = [0, *sorted(int(point * len(text)) for point in points), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@settings(max_examples=60, deadline=None)
@given(kind=KINDS, seed=st.integers(0, 10**6), points=st.lists(st.floats(0, 1), max_size=30), finish=FINISHES)
def test_cutting_changes_nothing(kind: str, seed: int, points: list[float], finish: str | None) -> None:
    """However the text is cut into chunks, and offline, the judgement is the same."""
    text = text_of_kind(kind, seed)
    observation = answer(text, finish)
    live = TurnJudge(Context())
    for part in cut(text, points):
        live.push(Chunk(content=part))
    assert live.finish(observation) == judge(observation, Context())


@settings(max_examples=40, deadline=None)
@given(kind=KINDS, seed=st.integers(0, 10**6), points=st.lists(st.floats(0, 1), max_size=30))
def test_cutting_ids_changes_nothing(kind: str, seed: int, points: list[float]) -> None:
    """The same on token ids, whose cuts need not be those of the text."""
    text = text_of_kind(kind, seed)
    ids = token_ids(text)
    observation = answer(text, "length", token_ids=ids)
    live = TurnJudge(Context())
    edges = [0, *sorted(int(point * len(ids)) for point in points), len(ids)]
    held = ""
    for part, (low, high) in zip(cut(text, points), pairwise(edges), strict=True):
        held += part
        if high > low:
            live.push(Chunk(content=held, token_ids=ids[low:high]))
            held = ""
    assert live.finish(observation) == judge(observation, Context())


@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(st.tuples(st.sampled_from(["content", "reasoning", "call 0", "call 1"]), HOSTILE), max_size=40),
    finish=FINISHES,
)
def test_interleaving_changes_nothing(parts: list[tuple[str, str]], finish: str | None) -> None:
    """Content, reasoning and calls may arrive in any order; what is stored is judged the same, and is valid JSON."""
    texts = {"content": "", "reasoning": "", "call 0": "", "call 1": ""}
    live = TurnJudge(Context())
    for where, text in parts:
        texts[where] += text
        if where.startswith("call"):
            live.push(Chunk(tool_calls=(ToolCallDelta(index=int(where[-1]), arguments=text),)))
        else:
            live.push(Chunk(**{where: text}))
    calls = tuple(ToolCall(id=f"c{at}", name="run", arguments=texts[f"call {at}"]) for at in range(2))
    observation = answer(texts["content"], finish, reasoning=texts["reasoning"], tool_calls=calls)
    judgement = live.finish(observation)
    assert judgement == judge(observation, Context())
    assert json.loads(encode(judgement))["class"] == judgement.class_


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(HOSTILE, max_size=30))
def test_pieces_do_not_depend_on_cuts(parts: list[str]) -> None:
    """A text has the same pieces whole and in parts, and joined they are the text."""
    text = "".join(parts)
    assert "".join(split(text)) == text
    whole, cuts = Splitter(), Splitter()
    expected = [*whole.push(text), *whole.finish()]
    assert [code for part in parts for code in cuts.push(part)] + cuts.finish() == expected


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), period=st.sampled_from([2, 9, 40]), more=st.integers(0, 6000))
def test_honest_text_after_a_loop_keeps_the_loop(seed: int, period: int, more: int) -> None:
    """Text added after a loop never makes its finding go away; enough of it makes the answer ok."""
    rng = random.Random(seed)
    looped = planted_exact(rng, period, 800, 700).text
    judgement = judge(answer(looped + "\n\n" + honest_prose(rng, more + 1), "length"), Context())
    assert any(any(part in finding.kind for part in ("loop", "flood", "repetition")) for finding in judgement.findings)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), period=st.sampled_from([2, 9, 40]))
def test_a_certain_loop_is_never_unsaid(seed: int, period: int) -> None:
    """If a signal was given in mid-stream, the final judgement has a finding for it."""
    rng = random.Random(seed)
    text = planted_exact(rng, period, 800, 900).text + honest_prose(rng, 4000)
    live = TurnJudge(Context())
    told = [live.push(Chunk(content=text[at : at + 200])) for at in range(0, len(text), 200)]
    judgement = live.finish(answer(text))
    assert not any(told) or judgement.findings


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(unit=HOSTILE.filter(bool), finish=FINISHES)
def test_large_hostile_answers(unit: str, finish: str | None) -> None:
    """Two million characters of anything are judged."""
    observation = answer(unit * (2_000_000 // len(unit)), finish)
    assert judge(observation, Context()).class_ in ("ok", "garbage_loop", "early_stop", "max_tokens", "error")


def test_hundred_thousand_calls() -> None:
    """A hundred thousand tool calls are judged, equal or not, and the findings stay few."""
    for calls in (
        tuple(ToolCall(id="c", name="run", arguments='{"a": 1}') for _ in range(100_000)),
        tuple(ToolCall(id="c", name="run", arguments=f'{{"a": {at}') for at in range(100_000)),
    ):
        observation: Observation = answer("", "tool_calls", tool_calls=calls)
        judgement = judge(observation, Context())
        assert judgement.class_ in ("garbage_loop", "error")
        assert len(judgement.findings) <= 16

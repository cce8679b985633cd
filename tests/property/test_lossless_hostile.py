"""Laws of the losslessness test that hold for any outputs, hostile ones too."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rigs.drawing import CARD, VOCABULARY, outputs_of, wrong

from soak.facts import LosslessResult, Mark, RescoredOutput, SamplingLaw, TurnKey, encode
from soak.stats.lossless import judge

LAWS = st.sampled_from(
    [
        SamplingLaw(top_p=0.95),
        SamplingLaw(),
        SamplingLaw(temperature=0.7, top_p=0.9, top_k=40),
        SamplingLaw(temperature=0.0),
        SamplingLaw(temperature=1.3, min_p=0.02),
    ]
)
SOME = settings(deadline=None, max_examples=25)
TABLES = ("token_ids", "logprobs", "ranks", "top_ids", "top_logprobs")


def drawn(law: SamplingLaw, seed: int, share: float, *, outputs: int = 3) -> list[RescoredOutput]:
    return outputs_of(law, seed, outputs=outputs, tokens=60, width=20, fault=wrong(share) if share else None)


def cut(output: RescoredOutput, at: int) -> tuple[RescoredOutput, RescoredOutput]:
    """Return the two pieces of an output, cut before the token `at`."""

    def piece(begin: int, end: int) -> RescoredOutput:
        k = output.width
        parts = {
            name: getattr(output, name)[4 * begin * (k if name.startswith("top") else 1) :][
                : 4 * (end - begin) * (k if name.startswith("top") else 1)
            ]
            for name in TABLES
        }
        return replace(output, start=begin, **parts)

    return piece(0, at), piece(at, output.tokens)


def told(result: LosslessResult) -> tuple[object, ...]:
    """Return what must not depend on how the data were cut or named."""
    places = [(token.key.episode, token.position, token.tier, token.logprob, token.rank) for token in result.worst]
    return result.result, result.tested, result.tests, result.bounds, result.curve, places, result.log10_evidence


@SOME
@given(LAWS, st.integers(0, 999), st.sampled_from([0.0, 0.05]), st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_cutting_outputs_into_pieces_changes_nothing(
    law: SamplingLaw, seed: int, share: float, cuts: list[int]
) -> None:
    """However outputs are cut into pieces, every test, bound, curve and worst token is the same."""
    outputs = drawn(law, seed, share)
    pieces = [piece for output, at in zip(outputs, cuts, strict=True) for piece in cut(output, at)]
    assert told(judge(CARD, pieces)) == told(judge(CARD, outputs))


@SOME
@given(LAWS, st.integers(0, 999), st.sampled_from([0.0, 0.05]))
def test_the_names_of_tokens_do_not_matter(law: SamplingLaw, seed: int, share: float) -> None:
    """Any renaming of token ids leaves every number of the result as it is."""
    outputs = drawn(law, seed, share)
    names = np.random.default_rng(seed).permutation(VOCABULARY).astype("<u4")

    def renamed(output: RescoredOutput) -> RescoredOutput:
        ids = {name: names[np.frombuffer(getattr(output, name), "<u4")].tobytes() for name in ("token_ids", "top_ids")}
        return replace(output, **ids)

    assert told(judge(CARD, [renamed(output) for output in outputs])) == told(judge(CARD, outputs))


@SOME
@given(LAWS, st.integers(0, 999), st.permutations(range(4)))
def test_the_order_of_outputs_matters_only_to_what_is_watched(
    law: SamplingLaw, seed: int, order: Sequence[int]
) -> None:
    """Tests looked at once, and the bounds, are those of the same outputs in any order."""
    outputs = drawn(law, seed, 0.02, outputs=4)
    one, other = judge(CARD, outputs), judge(CARD, [outputs[number] for number in order])

    def once(result: LosslessResult) -> list[float | None]:
        return [test.value for test in result.tests if not test.anytime]

    for first, second in zip(once(one), once(other), strict=True):
        assert first == second or math.isclose(first or 0, second or 0, rel_tol=1e-4, abs_tol=1e-4)
    assert one.tested == other.tested
    assert math.isclose(one.bounds.wrong_tokens or 0, other.bounds.wrong_tokens or 0, rel_tol=1e-9)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 999), st.booleans())
def test_swapped_arms_contradict_each_other_as_much(seed: int, paired: bool) -> None:
    """Candidate and control are as far apart as control and candidate, whether they share conversations or not."""
    one = outputs_of(SamplingLaw(top_p=0.95), seed, outputs=12, tokens=40, width=20)
    two = outputs_of(SamplingLaw(temperature=1.5, top_p=0.95), seed + 1, outputs=12, tokens=40, width=20)
    two = [replace(output, law=SamplingLaw(top_p=0.95)) for output in two]
    if not paired:
        two = [replace(o, key=TurnKey(episode=o.key.episode + "x", turn=0, pass_=0, arm="b")) for o in two]

    def p(first: list[RescoredOutput], second: list[RescoredOutput]) -> float:
        tests = judge(CARD, first, control=second).tests
        return next(test.value for test in tests if test.name == "against a control") or 0.0

    assert math.isclose(p(one, two), p(two, one), abs_tol=0.35)  # a p-value of 9,999 draws, as a power of ten


def test_small_healthy_runs_alarm_no_more_than_promised() -> None:
    """Of 120 healthy runs, noise included, no more deviate than a false alarm of 2 % makes plausible (1 in 1,000)."""
    laws = (SamplingLaw(top_p=0.95), SamplingLaw(), SamplingLaw(temperature=0.7, top_p=0.9, top_k=40))
    alarms = sum(
        judge(CARD, outputs_of(law, 7000 + seed, outputs=2, tokens=200, noise=0.1)).result == "deviates"
        for law in laws
        for seed in range(40)
    )
    assert alarms <= 8


NUMBERS = st.one_of(st.floats(width=32), st.sampled_from([-math.inf, math.inf, math.nan, 0.0, -0.0, -1e30, 1e-30]))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_hostile_tables_are_refused_or_bounded(data: st.DataObject) -> None:
    """Whatever numbers, ids, ranks, lengths, spans and marks an output holds, there is a result of finite numbers."""
    n, k = data.draw(st.integers(0, 4)), data.draw(st.integers(-1, 4))
    width = max(k, 0)

    def numbers(count: int) -> bytes:
        return np.array(data.draw(st.lists(NUMBERS, min_size=count, max_size=count)), dtype="<f4").tobytes()

    def ids(count: int) -> bytes:
        drawn_ids = st.one_of(st.integers(0, 5), st.integers(0, 2**32 - 1))
        return np.array(data.draw(st.lists(drawn_ids, min_size=count, max_size=count)), dtype="<u4").tobytes()

    big = st.integers(-(2**40), 2**40)
    output = RescoredOutput(
        key=TurnKey(episode="h", turn=0, pass_=0, arm="a"),
        law=SamplingLaw(
            temperature=data.draw(st.sampled_from([1.0, 0.0, 0.7, -1.0, math.nan, math.inf, 1e-9, 9.0])),
            top_p=data.draw(st.sampled_from([1.0, 0.95, 0.0, math.nan, 2.0])),
            top_k=data.draw(st.sampled_from([0, 1, 3, 40, -5, 2**40])),
            min_p=data.draw(st.sampled_from([0.0, 0.1, 1.0, -1.0])),
        ),
        prompt_tokens=data.draw(big),
        width=k,
        token_ids=ids(n),
        logprobs=numbers(n),
        ranks=ids(n),
        top_ids=ids(n * width),
        top_logprobs=np.sort(np.frombuffer(numbers(n * width), "<f4").reshape(n, width), axis=1)[:, ::-1].tobytes(),
        forced=tuple(data.draw(st.lists(st.tuples(big, big), max_size=2))),
        marks=tuple(Mark(position=data.draw(big), kind="m") for _ in range(data.draw(st.integers(0, 2)))),
        reported_logprobs=data.draw(st.sampled_from([None, b"", b"\0" * 4 * n])),
        start=data.draw(st.sampled_from([0, 5, -1])),
    )
    result = judge(CARD, [output], control=[output])
    assert result.tested <= n
    assert b"null" not in encode(result.curve)
    for test in result.tests:
        assert test.value is None or math.isfinite(test.value)

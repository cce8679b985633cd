"""Laws of verdicts and comparisons that hold for any history."""

import math

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.check import ArmHistory, HistoryView, compare, merge, summarise, turn_facts, worse
from soak.facts import (
    CLASSES,
    ArmCard,
    Attempt,
    Build,
    Comparison,
    CorpusCard,
    Judgement,
    Manifest,
    Observation,
    PlanCard,
    Record,
    Scenario,
    TurnKey,
    Usage,
)

VERDICTS = st.sampled_from(["pass", "unknown", "fail"])
TURN = st.one_of(
    st.tuples(st.sampled_from(CLASSES), st.floats(1.0, 1e6), st.booleans()),
    st.sampled_from(["skipped", "indeterminate", None]),
)
ARM = st.lists(TURN, max_size=40)
CARD = PlanCard(episodes=8, turns=40, passes=1, seed=7, hash="h")


def manifest() -> Manifest:
    scenario = Scenario(name="s", question="?", duration="?", corpus="c")
    arms = tuple(ArmCard(name=n, build=Build(model="m", target="t")) for n in ("baseline", "candidate"))
    corpus = CorpusCard(name="c", path="c", digest="d", episodes=8, turns=40)
    return Manifest(
        soak_version="0", created_at=0, scenario=msgspec.to_builtins(scenario), given={}, seed=7, corpus=corpus,
        arms=arms, plan_digest="p",
    )  # fmt: skip


def history(arm: str, turns: list[object]) -> dict[TurnKey, Record]:
    found = {}
    for index, turn in enumerate(turns):
        key = TurnKey(episode=f"e{index // 5}", turn=index % 5, pass_=0, arm=arm)
        if isinstance(turn, tuple):
            found[key] = finished(key, *turn)
        elif turn is not None:
            found[key] = Record(key=key, outcome=turn, at=0.0, reason="r")
    return found


def finished(key: TurnKey, class_: str, e2e_ms: float, censored: bool) -> Record:
    seen = Observation(
        key=key, started_at=0.0, ending="complete", max_tokens=9, usage=Usage(prompt=100, completion=5), e2e_ms=e2e_ms,
        attempts=(Attempt(started_at=0, took_ms=e2e_ms, status=200),), censored=censored,
    )  # fmt: skip
    return Record(key=key, outcome="finished", at=0, observation=seen, judgement=Judgement(class_=class_, reason="r"))


def sides(baseline: list[object], candidate: list[object]) -> tuple[ArmHistory, ArmHistory]:
    content = manifest()
    found = {**history("baseline", baseline), **history("candidate", candidate)}
    told = summarise(
        content, HistoryView(turns=list(turn_facts(found.values()))), run="r", state="complete", plan=CARD, wall_s=10.0
    )
    first, second = (
        ArmHistory(
            label=name,
            manifest=content,
            arm=name,
            turns=list(turn_facts(record for key, record in found.items() if key.arm == name)),
            summary=told.arms[name],
        )
        for name in ("baseline", "candidate")
    )
    return first, second


def mirrored(low_high: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if low_high is None else (-low_high[1], -low_high[0])


def near(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(one, other, strict=True))


@settings(deadline=None)
@given(VERDICTS, VERDICTS, VERDICTS)
def test_merging_verdicts_is_commutative_associative_idempotent(a: str, b: str, c: str) -> None:
    """The order and the number of times verdicts are merged does not matter."""
    assert worse(a, b) == worse(b, a)
    assert worse(worse(a, b), c) == worse(a, worse(b, c)) == merge([c, a, b])
    assert worse(a, a) == a == merge([a])


@settings(max_examples=60, deadline=None)
@given(ARM, ARM)
def test_swapping_the_arms_flips_the_signs(first: list[object], second: list[object]) -> None:
    """Differences change sign, ratios invert, counts change places, and what says whether it is real stays."""
    forth = compare(*sides(first, second))
    back = compare(*sides(second, first))
    for name, one in forth.classes.items():
        other = back.classes[name]
        assert (one.baseline, one.candidate) == (other.candidate, other.baseline)
        if one.discordant is None or other.discordant is None:
            assert one.discordant is other.discordant
        else:
            assert one.discordant.baseline_only == other.discordant.candidate_only
        assert one.p_value is None if other.p_value is None else math.isclose(one.p_value, other.p_value, rel_tol=1e-9)
        assert near(one.ci95, mirrored(other.ci95))
        assert (one.difference or 0.0) == -(other.difference or 0.0)
        flipped = {"improvement": "regression", "regression": "improvement"}
        assert one.result == flipped.get(other.result, other.result)
        assert one.turns_needed_80 == other.turns_needed_80
    assert_time_mirrored(forth, back)


def assert_time_mirrored(forth: Comparison, back: Comparison) -> None:
    assert forth.wall_clock.baseline_s == back.wall_clock.candidate_s
    assert forth.wall_clock.explained_by == {name: -s for name, s in back.wall_clock.explained_by.items()}
    if forth.wall_clock.ratio is not None:
        assert math.isclose(forth.wall_clock.ratio * back.wall_clock.ratio, 1.0, rel_tol=1e-9)


@settings(max_examples=40, deadline=None)
@given(ARM)
def test_identical_arms_show_no_difference(turns: list[object]) -> None:
    """p is 1, the difference 0, the time ratio 1, and nothing is an improvement or a regression."""
    found = compare(*sides(turns, turns))
    for one in found.classes.values():
        assert one.p_value in (None, 1.0)
        assert one.difference in (None, 0.0)
        assert one.ci95 is None or one.ci95[0] <= 0 <= one.ci95[1]
        assert one.result == "inconclusive"
    assert found.wall_clock.ratio is None or math.isclose(found.wall_clock.ratio, 1.0)
    assert found.verdict == "unknown"


@settings(max_examples=60, deadline=None)
@given(ARM, ARM)
def test_the_change_in_time_is_wholly_explained(first: list[object], second: list[object]) -> None:
    """The seconds by class add up to candidate − baseline."""
    clock = compare(*sides(first, second)).wall_clock
    change = (clock.candidate_s or 0.0) - (clock.baseline_s or 0.0)
    assert math.isclose(sum(clock.explained_by.values()), change, abs_tol=1e-6)


@settings(max_examples=60, deadline=None)
@given(ARM)
def test_counts_of_a_summary_add_up(turns: list[object]) -> None:
    """Planned = finished + skipped + indeterminate + not reached, and finished is the sum of the classes."""
    counts = sides(turns, [])[0].summary.turns
    assert counts.finished == sum(getattr(counts, name) for name in CLASSES)
    assert counts.planned == counts.finished + counts.skipped + counts.indeterminate + counts.not_reached


@settings(max_examples=60, deadline=None)
@given(ARM, ARM)
def test_no_claim_without_an_interval_that_excludes_no_change(first: list[object], second: list[object]) -> None:
    """Improvement and regression come only with an interval on one side of 0 and a corrected p below 0.05."""
    for one in compare(*sides(first, second)).classes.values():
        if one.result in ("improvement", "regression"):
            assert one.ci95[1] < 0 or one.ci95[0] > 0
            assert one.p_adjusted < 0.05

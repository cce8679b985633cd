"""From conditions and laws to a cause."""

import math
import random
from typing import Any

import msgspec
import pytest

from soak.client import Row
from soak.errors import TargetError
from soak.facts import (
    Case,
    Finding,
    Judgement,
    Law,
    Message,
    Observation,
    Outcomes,
    Sampling,
    TurnClass,
    TurnKey,
)
from soak.probe import (
    ALONE,
    AS_ASKED,
    COOL,
    GREEDY,
    NO_CACHE,
    NO_SPECULATION,
    PLAIN_COLD,
    RESTARTED,
    SALTED,
    Seen,
    diagnose,
    impossible,
    law_of,
    onset_of,
    reshaped,
    restart_matters,
)
from soak.probe.diagnosis import Cast
from soak.stats import wilson

CASE = Case(
    name="talk", messages=(Message(role="user", content="go on"),), sampling=Sampling(temperature=1.0, top_p=0.95)
)
ORDINARY = Law(
    position=40, token=7, logprob=math.log(0.2), rank=1, floor=-9.0, best=3, best_logprob=math.log(0.7),
    second_logprob=math.log(0.2), nucleus=0.7,
)  # fmt: skip
FOREIGN = Law(
    position=41, token=9, logprob=None, rank=31_000, floor=-12.0, best=3, best_logprob=math.log(0.97),
    second_logprob=-5.0, nucleus=0.999,
)  # fmt: skip


def outcomes(
    failed: int, failure: TurnClass, asked: int = 20, *, distinct: int | None = None, unanswered: int = 0
) -> Outcomes:
    """Return what `asked` repeats came to of which `failed` failed so, and `unanswered` never came."""
    low, high = wilson(failed, asked) or (0.0, 1.0)
    classes: dict[TurnClass, int] = {failure: failed, "ok": asked - failed - unanswered, "error": unanswered}
    return Outcomes(
        bench="b", change="", asked=asked, counted=asked - unanswered, classes=classes, failed=failed, low=low,
        high=high, distinct=asked if distinct is None else distinct, unanswered=unanswered,
    )  # fmt: skip


def cause(
    rates: dict[str, int], *laws: Law, failure: TurnClass = "garbage_loop", case: Case = CASE, identical: int = 1
) -> str:
    """Return the cause found for these failures of 20 in each condition."""
    conditions = {name: outcomes(failed, failure) for name, failed in rates.items()}
    return diagnose(Seen(case=case, failure=failure, conditions=conditions, laws=laws, identical=identical)).cause


EVERYWHERE = {
    AS_ASKED: 12, SALTED: 11, NO_SPECULATION: 13, PLAIN_COLD: 11, NO_CACHE: 10, ALONE: 12, COOL: 13, GREEDY: 14
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "laws", "expected"),
    [
        ({}, (ORDINARY,), "model"),
        ({SALTED: 0, NO_CACHE: 0, PLAIN_COLD: 0}, (), "engine: cache"),
        ({SALTED: 0, NO_CACHE: 0, PLAIN_COLD: 0}, (FOREIGN,), "engine: cache"),
        ({NO_SPECULATION: 0, PLAIN_COLD: 0}, (FOREIGN,), "engine: speculation"),
        ({PLAIN_COLD: 0}, (ORDINARY,), "engine: other"),
        ({ALONE: 0}, (), "engine: other"),
        ({}, (ORDINARY, FOREIGN), "engine: other"),
        ({COOL: 0}, (ORDINARY,), "sampling"),
        ({COOL: 0}, (), "sampling"),
        ({COOL: 0}, (FOREIGN,), "engine: other"),
        ({COOL: 0, PLAIN_COLD: 5}, (ORDINARY,), "undecided"),
        ({COOL: 5, AS_ASKED: 11}, (ORDINARY,), "undecided"),
        ({GREEDY: 0}, (ORDINARY,), "model"),
        (dict.fromkeys(EVERYWHERE, 0), (), "undecided"),
        ({AS_ASKED: 2, SALTED: 0, NO_SPECULATION: 0, NO_CACHE: 0, PLAIN_COLD: 0}, (), "undecided"),
    ],
)  # fmt: skip
def test_causes_of_a_loop(changed: dict[str, int], laws: tuple[Law, ...], expected: str) -> None:
    """The one thing without which a loop goes away is its cause; what comes in all of them is the model's own."""
    assert cause(EVERYWHERE | changed, *laws) == expected


def cast_of(rates: dict[str, int], **more: Any) -> Cast:
    """Return all that is said of these failures of 20 in each condition."""
    conditions = {name: outcomes(failed, "garbage_loop") for name, failed in (EVERYWHERE | rates).items()}
    return diagnose(Seen(case=CASE, failure="garbage_loop", conditions=conditions, **more))


def test_cache_and_speculation_together_are_said() -> None:
    """Where either alone heals it, one is the cause and the sentence names both."""
    cast = cast_of({SALTED: 0, NO_CACHE: 0, NO_SPECULATION: 0, PLAIN_COLD: 0})
    assert cast.cause in ("engine: cache", "engine: speculation")
    assert "cache × speculation" in cast.text
    assert len(cast.evidence) == len(EVERYWHERE)


def test_what_only_both_heal_is_no_models() -> None:
    """Away only without speculation and cold at once: the engine, and whether one alone would do is not pretended."""
    both = cast_of({PLAIN_COLD: 0})
    assert both.cause == "engine: other"
    assert "either alone is not enough (13 of 20 with no speculation" in both.text
    untold = cast_of({PLAIN_COLD: 0, NO_SPECULATION: 5})
    assert (untold.cause, "do not tell" in untold.text) == ("engine: other", True)
    assert cast_of({PLAIN_COLD: 0}, salt_in_prompt=True).cause == "undecided"
    second = cast_of({AS_ASKED: 20, NO_SPECULATION: 8, PLAIN_COLD: 0})
    assert second.cause == "engine: speculation"
    assert "a second fault" in second.text


def test_a_start_with_nothing_changed_is_a_control() -> None:
    """What another start heals by itself is not blamed on what was changed with it; alone it blames nothing."""
    healed = {NO_SPECULATION: 0, PLAIN_COLD: 0, RESTARTED: 1}
    cast = cast_of(healed)
    assert cast.cause == "engine: other"
    assert "with nothing changed" in cast.text
    assert cast_of(healed | {RESTARTED: 11}).cause == "engine: speculation"
    assert cast_of(healed | {SALTED: 0}).cause == "engine: cache", "it was seen on the server that was asked first"
    assert cast_of({RESTARTED: 0}).cause == "model"


def test_another_start_is_only_asked_for_where_it_can_tell_something() -> None:
    """With nothing healed, or healed on the first server, a mere start tells nothing and is not made."""

    def matters(**changed: int) -> bool:
        rates = EVERYWHERE | {NO_SPECULATION: changed.get("plain", 13), SALTED: changed.get("salted", 11)}
        conditions = {name: outcomes(failed, "garbage_loop") for name, failed in rates.items()}
        return restart_matters(Seen(case=CASE, failure="garbage_loop", conditions=conditions))

    assert not matters()
    assert not matters(salted=0)
    assert matters(plain=0)
    assert not restart_matters(Seen(case=CASE, failure="garbage_loop", conditions={}))


def test_a_control_costs_the_others_nothing() -> None:
    """A p-value that is low enough among the parts of the engine stays so with a control and low temperatures tried."""
    parts = {AS_ASKED: 8, SALTED: 8, NO_SPECULATION: 0, PLAIN_COLD: 4, NO_CACHE: 8}
    few = {name: outcomes(failed, "garbage_loop") for name, failed in parts.items()}
    more = few | {name: outcomes(8, "garbage_loop") for name in (RESTARTED, COOL, GREEDY)}
    texts = {diagnose(Seen(case=CASE, failure="garbage_loop", conditions=one)).text for one in (few, more)}
    assert len(texts) == 1
    assert "corrected for the 4 conditions tested" in texts.pop()


def test_the_engine_is_seldom_blamed_for_nothing() -> None:
    """Where a failure comes at one rate in every condition, at most one triage in twenty names a part of the engine."""
    draw = random.Random(4)
    names = [*EVERYWHERE, RESTARTED]
    causes = [
        cast_of({name: sum(draw.random() < rate for _ in range(20)) for name in names}).cause
        for rate in (0.2, 0.5, 0.9)
        for _ in range(200)
    ]
    assert sum(cause.startswith("engine") for cause in causes) <= 0.05 * len(causes)
    assert causes.count("model") > 0.7 * len(causes)


def test_p_is_said_to_be_what_it_is() -> None:
    """The sentence says of what p is the chance, and what is open says that it holds for one look."""
    cast = cast_of({NO_SPECULATION: 0, PLAIN_COLD: 0})
    assert "the chance of a difference at least this large if the condition made none" in cast.text
    assert "luck" not in cast.text
    assert any("one look" in text for text in cast.open)


def stop(behind: float, margin: float, **more: Any) -> Law:
    """Return the law at a stop that lies so far behind the likeliest token, or is the likeliest by `margin`."""
    best = -0.5
    second = best - (behind or margin)
    changes = {
        "position": 9,
        "token": 2,
        "best": 2 if not behind else 5,
        "best_logprob": best,
        "second_logprob": second,
        "logprob": best - behind,
        "rank": 1 if behind else 0,
        "nucleus": 0.6 if behind else 0.0,
    }
    return msgspec.structs.replace(ORDINARY, **(changes | more))  # fmt: skip


GREEDY_CASE = msgspec.structs.replace(CASE, sampling=Sampling(temperature=0.0, top_p=None))


@pytest.mark.parametrize(
    ("case", "law", "expected"),
    [
        (GREEDY_CASE, stop(0.04, 0.0), "near-tie (numerics)"),
        (GREEDY_CASE, stop(0.0, 0.04), "near-tie (numerics)"),
        (GREEDY_CASE, stop(0.0, 3.0), "model"),
        (GREEDY_CASE, stop(4.0, 0.0), "engine: other"),
        (GREEDY_CASE, stop(0.67, 0.0), "undecided"),
        (CASE, stop(0.04, 0.0), "model"),
        (CASE, stop(1.5, 0.0), "model"),
        (CASE, stop(9.0, 0.0, logprob=None, floor=-12.0, nucleus=0.999), "engine: other"),
    ],
)
def test_causes_of_an_early_stop(case: Case, law: Law, expected: str) -> None:
    """A near tie is numerics where rounding decides; one the model wants is its own, an impossible one the engine's."""
    rates = dict.fromkeys((AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD, NO_CACHE), 15)
    assert cause(rates, law, failure="early_stop", case=case, identical=10) == expected


@pytest.mark.parametrize(
    ("rates", "law", "expected"),
    [
        ({COOL: 1}, stop(1.5, 0.0), "sampling"),
        ({COOL: 12}, stop(1.5, 0.0), "model"),
        ({COOL: 1}, stop(0.0, 3.0), "model"),
        (dict.fromkeys((AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD, NO_CACHE, COOL), 0), stop(1.5, 0.0), "sampling"),
        ({AS_ASKED: 6, PLAIN_COLD: 2, NO_SPECULATION: 2}, stop(1.5, 0.0), "undecided"),
    ],
)
def test_a_stop_that_was_drawn(rates: dict[str, int], law: Law, expected: str) -> None:
    """A stop the model may draw is sampling where it is rare or goes at a low temperature, its own where it stays."""
    every = dict.fromkeys((AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD, NO_CACHE), 12) | rates
    assert cause(every, law, failure="early_stop") == expected


def test_a_stop_is_no_draw_on_the_word_of_few_answers() -> None:
    """Where it was asked again only three times, that it did not come again says nothing."""
    names = (AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD, NO_CACHE)
    few = {name: outcomes(0, "early_stop", 3) for name in names}
    seen = Seen(case=CASE, failure="early_stop", conditions=few, laws=(stop(1.5, 0.0),), identical=1)
    assert diagnose(seen).cause == "undecided"


@pytest.mark.parametrize(
    ("law", "expected"), [(stop(0.0, 3.0), "engine: cache"), (stop(0.04, 0.0), "near-tie (numerics)")]
)
def test_a_greedy_stop_that_a_part_of_the_engine_needs_is_not_the_models(law: Law, expected: str) -> None:
    """What went wrong before a stop may make it natural there; only where rounding decides no part is blamed."""
    rates = {AS_ASKED: 20, SALTED: 0, NO_SPECULATION: 20, PLAIN_COLD: 0, NO_CACHE: 0}
    assert cause(rates, law, failure="early_stop", case=GREEDY_CASE) == expected


def test_a_wrong_token_before_a_stop_is_seen() -> None:
    """An answer that the model itself would end is the engine's all the same if a token before was none of its own."""
    rates = dict.fromkeys((AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD, NO_CACHE), 15)
    assert cause(rates, FOREIGN, stop(0.0, 3.0), failure="early_stop") == "engine: other"


def test_what_we_ended_ourselves_is_the_clients() -> None:
    """A deadline of ours or a stop string that was asked for is no fault of engine or model."""
    answer = Observation(
        key=TurnKey(episode="t", turn=0, pass_=0, arm="a"), started_at=0.0, ending="deadline_turn", max_tokens=9
    )
    case = msgspec.structs.replace(CASE, observation=answer)
    assert cause(EVERYWHERE, failure="error", case=case) == "client"
    assert cause(EVERYWHERE, FOREIGN, case=case) == "engine: other", "a loop loops, whoever ends it"
    stopped = msgspec.structs.replace(answer, ending="complete", stop_reason="END", finish_reason="stop")
    sampling = Sampling(stop=("END",))
    case = msgspec.structs.replace(CASE, observation=stopped, sampling=sampling)
    assert cause(EVERYWHERE, failure="early_stop", case=case) == "client"
    assert cause({}, failure="early_stop", case=case) == "client", "known before anything is asked"


def test_a_limit_shorter_than_the_recorded_answer_is_the_clients() -> None:
    """A limit on tokens is to blame where the recorded answer would not fit; a far longer answer has another cause."""
    cut = Observation(
        key=TurnKey(episode="t", turn=0, pass_=0, arm="a"), started_at=0.0, ending="complete", max_tokens=96,
        finish_reason="length",
    )  # fmt: skip
    case = msgspec.structs.replace(CASE, observation=cut, sampling=Sampling(max_tokens=96), reference_tokens=120)
    assert cause({}, failure="max_tokens", case=case) == "client"
    short = msgspec.structs.replace(case, reference_tokens=20)
    assert cause(EVERYWHERE, failure="max_tokens", case=short) == "model"


def test_a_law_keeps_what_the_lists_prove() -> None:
    """The nucleus is the mass above the token; a token that is not listed lies below all that are."""
    top = ((3, math.log(0.6)), (4, math.log(0.3)), (7, math.log(0.05)))
    listed = law_of(Row(top=top, token=7, logprob=math.log(0.05), rank=2), 5)
    assert listed.nucleus == pytest.approx(0.9)
    assert listed.behind == pytest.approx(math.log(12))
    unlisted = law_of(Row(top=top, token=9, logprob=-math.inf, rank=40), 5)
    assert unlisted.logprob is None
    assert unlisted.nucleus == pytest.approx(0.95)
    assert unlisted.margin == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("top", "own", "rank", "why"),
    [
        ([(token, -0.2 + token / 1000) for token in range(12)], -0.2, 11, "token 5 the probabilities listed add up to"),
        (
            [(3, math.log(0.82)), (7, math.log(0.1))],
            math.log(0.1),
            0,
            "1 likelier ones are listed than the token of rank 1",
        ),
        ([(3, math.log(0.82)), (7, -math.inf)], -math.inf, 0, "of rank 1"),
        ([(3, -700.0), (7, -740.0)], -740.0, 1, "none of those listed is as likely"),
        ([(3, -math.inf), (7, -math.inf)], -math.inf, 1, "none of those listed is as likely"),
    ],
)
def test_a_row_that_is_no_law_is_refused(top: list[tuple[int, float]], own: float, rank: int, why: str) -> None:
    """Probabilities beyond 1, ranks that their own list contradicts and lists without a likeliest token are no law."""
    row = Row(top=tuple(sorted(top, key=lambda one: -one[1])), token=7, logprob=own, rank=rank)
    with pytest.raises(TargetError, match="does not give log probabilities") as refused:
        law_of(row, 5)
    assert why in refused.value.why


def test_a_law_may_be_rounded() -> None:
    """A sum of 1.01 and a rank that is off between tokens that tie are what rounding makes."""
    tied = ((3, math.log(0.505)), (7, math.log(0.505) - 5e-4))
    assert law_of(Row(top=tied, token=7, logprob=tied[1][1], rank=0), 5).rank == 0


def seen(conditions: dict[str, Outcomes], **more: Any) -> str:
    """Return the cause found for these conditions."""
    return diagnose(Seen(**({"case": CASE, "failure": "garbage_loop"} | more), conditions=conditions)).cause


def everywhere(failure: TurnClass = "garbage_loop", **changed: Outcomes) -> dict[str, Outcomes]:
    """Return conditions in all of which the failure comes, but for those changed."""
    return {name: outcomes(failed, failure) for name, failed in EVERYWHERE.items()} | changed


def test_what_was_not_answered_heals_nothing() -> None:
    """A condition in which the server refuses or dies shows no fewer failures; without any answer all is undecided."""
    dead = outcomes(0, "garbage_loop", unanswered=20)
    assert seen(everywhere() | {NO_SPECULATION: dead, SALTED: dead, PLAIN_COLD: dead}) == "undecided"
    assert seen(everywhere() | {AS_ASKED: dead}) == "undecided"
    assert seen(everywhere() | {NO_SPECULATION: outcomes(0, "garbage_loop", unanswered=4)}) == "engine: speculation"


def test_one_greedy_answer_repeated_is_one_draw() -> None:
    """Twenty times the same greedy answer without the failure may be one rounding: it names no sampling, no engine."""
    once = outcomes(0, "garbage_loop", distinct=1)
    assert seen(everywhere() | {GREEDY: once}) == "model"
    conditions = {
        AS_ASKED: outcomes(20, "early_stop", distinct=1),
        NO_SPECULATION: outcomes(0, "early_stop", distinct=1),
    }
    of_stop: dict[str, Any] = {"case": GREEDY_CASE, "failure": "early_stop"}
    assert seen(conditions, **of_stop) == "undecided"
    assert seen(conditions, **of_stop, laws=(stop(0.04, 0.0),)) == "near-tie (numerics)"
    assert seen(conditions, **of_stop, laws=(stop(4.0, 0.0),)) == "engine: speculation"


def test_a_salt_in_the_prompt_changes_more_than_the_cache() -> None:
    """Where the salt is words that the model reads, going away with it does not name the cache; coming does count."""
    healed = {SALTED: outcomes(0, "garbage_loop")}
    assert seen(everywhere() | healed) == "engine: cache"
    assert seen(everywhere() | healed, salt_in_prompt=True) == "undecided"
    assert seen(everywhere(), salt_in_prompt=True) == "model"


def test_the_model_is_named_only_without_speculation_and_cold() -> None:
    """One failure there is too little, and what was tried on the server as it is is not enough."""
    assert (
        seen({AS_ASKED: outcomes(8, "garbage_loop"), SALTED: outcomes(8, "garbage_loop")}, laws=(ORDINARY,))
        == "undecided"
    )
    single = {name: outcomes(1, "garbage_loop") for name in (AS_ASKED, SALTED, NO_SPECULATION, PLAIN_COLD)}
    assert seen(single, laws=(ORDINARY,)) == "undecided"


@pytest.mark.parametrize(
    ("sampling", "law", "expected"),
    [
        (Sampling(temperature=1.0, top_p=None), {"logprob": -14.0, "rank": 9000}, False),
        (Sampling(temperature=1.0, top_p=None), {"logprob": -30.0, "rank": 90000}, True),
        (Sampling(temperature=1.0, top_p=None, top_k=40), {"logprob": -14.0, "rank": 9000}, True),
        (Sampling(temperature=1.0, top_p=None, top_k=40), {"logprob": -5.0, "rank": 44}, False),
        (Sampling(temperature=1.0, top_p=None, min_p=0.05), {"logprob": -6.0, "rank": 60}, True),
        (Sampling(temperature=1.0, top_p=None, min_p=0.05), {"logprob": -3.8, "rank": 6}, False),
        (Sampling(temperature=1.5, top_p=None), {"logprob": -25.0, "rank": 9000}, False),
        (Sampling(temperature=1.5, top_p=0.9), {"nucleus": 0.99}, False),
        (Sampling(temperature=0.7, top_p=0.9), {"nucleus": 0.95}, True),
        (Sampling(temperature=1.0, top_p=0.99), {"logprob": -30.0, "nucleus": 0.999, "rank": 900}, True),
        (Sampling(temperature=1.0, top_k=1), {"logprob": -0.9}, False),
        (Sampling(temperature=1.0, top_k=1), {"logprob": -3.0}, True),
    ],
)
def test_what_cannot_be_drawn(sampling: Sampling, law: dict[str, Any], expected: bool) -> None:
    """Truncation rules out what it leaves out by more than rounding; without it rare tokens are drawn now and then."""
    assert impossible(msgspec.structs.replace(ORDINARY, **({"nucleus": 0.0} | law)), sampling) is expected


def test_a_law_that_penalties_reshape_is_not_asked() -> None:
    """Penalties, biases and grammars draw from another law than the model's own; "auto" tools do not."""
    assert reshaped(CASE) is None
    assert (
        reshaped(msgspec.structs.replace(CASE, extra_body={"tool_choice": "auto", "repetition_penalty": 1.0})) is None
    )
    penalised = msgspec.structs.replace(CASE, sampling=Sampling(repetition_penalty=1.1))
    assert reshaped(penalised) == "repetition_penalty"
    assert reshaped(msgspec.structs.replace(CASE, extra_body={"logit_bias": {"5": -9}})) == "logit_bias"


@pytest.mark.parametrize(("told", "token"), [(-(10**18), 0), (-1, 0), (1, 1), (2, 2), (3, 2), (10**18, 2)])
def test_an_onset_lies_in_the_answer(told: int, token: int) -> None:
    """Wherever a turn file says that a failure begins, it is a token of the answer."""
    answer = Observation(
        key=TurnKey(episode="e", turn=0, pass_=0, arm="a"), started_at=0.0, ending="complete", max_tokens=9,
        token_ids=(1, 2, 3),
    )  # fmt: skip
    loop = Judgement(class_="garbage_loop", reason="", findings=(Finding(kind="loop", onset_token=told),))
    assert onset_of(loop, answer) == token

"""Cache probes: what they ask, and what the answers mean."""

import math

import msgspec
import pytest

from soak.facts import (
    Capabilities,
    Case,
    Change,
    Logprob,
    Message,
    Observation,
    Sampling,
    ToolCall,
    Trial,
    TurnKey,
    Usage,
)
from soak.probe import (
    Form,
    apart,
    bar_of,
    body_of,
    branch,
    cache_found,
    divergence_found,
    floor_of,
    parting_of,
    prefixes_of,
    probe_of,
    probing,
    smaller,
)

TALK = tuple(
    Message(role=role, content=f"{role} {number}")
    for number, role in enumerate(["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user"])
)
CASE = Case(name="talk", messages=TALK, sampling=Sampling(temperature=1.0, top_p=0.9))
SURE = {"a": 0.9, "b": 0.1}
TIE = {"a": 0.51, "b": 0.49}
BARE = Observation(
    key=TurnKey(episode="talk", turn=0, pass_=0, arm="a"), started_at=0.0, ending="complete", max_tokens=24, content="x"
)


def answer(*laws: dict[str, float], cached: int | None = 16) -> Observation:
    """Return an answer that took the likeliest token of each law."""
    logprobs = []
    for law in laws:
        top = tuple(sorted(((token, math.log(share)) for token, share in law.items()), key=lambda one: -one[1]))
        logprobs.append(Logprob(token=top[0][0], logprob=top[0][1], top=top))
    return msgspec.structs.replace(
        BARE,
        content="".join(one.token for one in logprobs),
        token_ids=tuple(ord(one.token) for one in logprobs),
        logprobs=tuple(logprobs),
        usage=Usage(prompt=100, completion=len(laws), cached=cached),
    )


def trial(observation: Observation) -> Trial:
    """Return a trial that gave this answer."""
    return Trial(bench="b", case="c", change=Change(), repeat=0, seed=None, body="", at=0.0, observation=observation)


def test_equal_answers_are_not_apart() -> None:
    """An answer held against itself moves nothing and never diverges."""
    distance = apart(answer(SURE, TIE), answer(SURE, TIE))
    assert (distance.mass, distance.logprob, distance.diverges_at) == (0.0, 0.0, None)
    assert distance.same_text
    assert distance.same_tokens
    assert distance.compared == 2


def test_the_moved_mass_is_the_total_variation() -> None:
    """For laws that both lists name wholly the mass is half the sum of differences, at its largest token."""
    distance = apart(answer(SURE, TIE), answer(SURE, {"b": 0.8, "a": 0.2}))
    assert distance.mass == pytest.approx(0.31)
    assert distance.mass_at == 1
    assert distance.first_mass == 0.0
    assert distance.diverges_at == 1
    assert distance.gaps == pytest.approx((math.log(0.51 / 0.49), math.log(4)))
    assert distance.took == ("a", "b")


def test_after_the_first_difference_nothing_is_compared() -> None:
    """Tokens drawn after different texts say nothing about each other."""
    distance = apart(answer(TIE, SURE), answer({"b": 0.51, "a": 0.49}, {"z": 1.0}))
    assert distance.compared == 1
    assert distance.mass == pytest.approx(0.02)


def test_what_a_list_does_not_name_is_bounded_by_its_last() -> None:
    """A token that the other list leaves out may be as likely as the last one there: only the rest has surely moved."""
    distance = apart(answer({"a": 0.6, "b": 0.3}), answer({"a": 0.6, "c": 0.25}))
    assert distance.mass == pytest.approx(0.05)


def test_a_token_drawn_from_below_the_list_does_not_bound_it() -> None:
    """What is not named may be as likely as the list's last, however unlikely the token that was drawn."""
    listed = (("a", math.log(0.5)), ("b", math.log(0.3)))
    one = Logprob(token="z", logprob=math.log(0.001), top=(*listed, ("z", math.log(0.001))))
    other = Logprob(token="a", logprob=math.log(0.5), top=(("a", math.log(0.5)), ("c", math.log(0.25))))
    drawn = [msgspec.structs.replace(BARE, logprobs=(law,)) for law in (one, other)]
    assert apart(*drawn).mass == pytest.approx(0.05)
    bare = [Logprob(token=token, logprob=math.log(share)) for token, share in (("a", 0.4), ("b", 0.9))]
    assert apart(*(msgspec.structs.replace(BARE, logprobs=(law,)) for law in bare)).mass == pytest.approx(0.3)


def test_beginnings_end_where_a_model_answers() -> None:
    """Each beginning ends before a recorded answer, the whole case is the last, and all share its first messages."""
    beginnings = prefixes_of(CASE, 10)
    assert [len(one.messages) for one in beginnings] == [2, 4, 6, 8]
    assert all(one.messages == TALK[: len(one.messages)] for one in beginnings)
    assert [len(one.messages) for one in prefixes_of(CASE, 2)] == [4, 8]
    assert len({one.digest for one in beginnings}) == 4


def test_branches_share_the_whole_prompt() -> None:
    """Branches begin with all of the case and differ from one another."""
    branches = [branch(CASE, number) for number in range(5)]
    assert all(one.messages[:8] == TALK for one in branches)
    assert len({one.messages for one in branches}) == 5


def test_a_probe_asks_greedily_and_for_log_probabilities() -> None:
    """Whatever the case's sampling was, its probe is greedy, short, and asks for the top tokens."""
    asked = probing(CASE)
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.logprobs) == (0.0, None, 20)
    assert asked.sampling.max_tokens <= 32


def found(*warm: Observation, cold: Observation, confirmed: bool = False) -> str:
    """Return the result of probes that gave `warm` where cold answers are all `cold`."""
    colds = [[trial(cold), trial(cold)]]
    bar = bar_of(floor_of(colds)[0])
    probes = [probe_of("salted", CASE, one, cold, bar) for one in warm]
    return cache_found(CASE, probes, colds, confirmed=confirmed, requests=3).result


def test_results() -> None:
    """Two faults or a confirmed one are a cache fault, a lone one is undecided, rounding numerics, equality nothing."""
    cold = answer(SURE, TIE)
    wrong = answer({"x": 0.95, "y": 0.05})
    nearly = answer(SURE, {"b": 0.52, "a": 0.48})
    assert found(wrong, wrong, cold=cold) == "cache fault"
    assert found(wrong, cold, cold=cold, confirmed=True) == "cache fault"
    assert found(wrong, cold, cold=cold) == "undecided"
    assert found(nearly, cold, cold=cold) == "numerics"
    assert found(cold, cold, cold=cold) == "nothing found"


def test_beginnings_of_one_conversation_bound_nothing_like_many() -> None:
    """However many probes of one conversation find nothing, they are one draw: the bound is that of one."""
    cold = answer(SURE, TIE)
    colds = [[trial(cold), trial(cold)]]
    results = [
        cache_found(CASE, [probe_of("salted", CASE, cold, cold, 0.25)] * probes, colds, confirmed=False, requests=3)
        for probes in (1, 300)
    ]
    assert [result.bound for result in results] == [pytest.approx(0.95)] * 2
    assert [result.conversations for result in results] == [1, 1]
    assert "300 probes of one conversation" in results[1].text
    assert "of other conversations less than 95% fail so" in results[1].text


def test_noise_that_hides_every_fault_decides_nothing() -> None:
    """Where cold answers lie so far apart that no mass reaches the bar, nothing is said to be found or not found."""
    one, other = answer({"a": 0.9, "b": 0.1}), answer({"b": 0.9, "a": 0.1})
    colds = [[trial(one), trial(other)]]
    bar = bar_of(floor_of(colds)[0])
    assert bar > 1
    probes = [probe_of("salted", CASE, other, one, bar)] * 3
    result = cache_found(CASE, probes, colds, confirmed=False, requests=3)
    assert result.result == "undecided"
    assert "no fault could be told" in result.text


def test_answers_that_call_something_else_are_not_the_same() -> None:
    """Without token ids and log probabilities two answers whose calls differ are different answers."""
    calls = [(ToolCall(id="c", name="read", arguments=f'{{"line": {line}}}'),) for line in (1, 2)]
    one, other = (msgspec.structs.replace(BARE, tool_calls=call) for call in calls)
    assert not apart(one, other).same_text
    assert apart(one, one).same_text


def test_probes_that_met_no_cache_show_nothing() -> None:
    """A server that says that nothing came from the cache has shown neither fault nor health."""
    assert found(answer(SURE, cached=0), cold=answer(SURE)) == "undecided"


def test_noise_raises_the_bar() -> None:
    """Where cold answers lie apart themselves, a probe must lie three times as far apart."""
    one, other = answer({"a": 0.7, "b": 0.3}), answer({"a": 0.5, "b": 0.5})
    floor, pairs = floor_of([[trial(one), trial(other)]])
    assert (floor, pairs) == (pytest.approx(0.2), 1)
    assert bar_of(floor) == pytest.approx(0.6)
    assert bar_of(None) == bar_of(0.0) == 0.25


def test_without_log_probabilities_a_difference_is_untold() -> None:
    """Other words without log probabilities may be rounding or a fault; equal words are equal."""
    assert probe_of("aba", CASE, BARE, msgspec.structs.replace(BARE, content="y"), 0.25).verdict == "untold"
    assert probe_of("aba", CASE, BARE, BARE, 0.25).verdict == "same"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 5.0])
def test_hostile_numbers_are_bounded(value: float) -> None:
    """NaN, infinities and positive log probabilities never give a mass outside 0 to 1."""
    odd = Logprob(token="a", logprob=value, top=(("a", value), ("b", value)))
    fine = Logprob(token="a", logprob=-0.1, top=(("a", -0.1),))
    mass = apart(msgspec.structs.replace(BARE, logprobs=(odd,)), msgspec.structs.replace(BARE, logprobs=(fine,))).mass
    assert mass is not None
    assert 0.0 <= mass <= 1.0


def test_a_difference_in_calls_alone_is_a_difference() -> None:
    """Answers that hold only calls are the same only if the calls are."""
    call = ToolCall(id="1", name="run", arguments='{"a":1}')
    one = msgspec.structs.replace(BARE, content="", tool_calls=(call,))
    same = msgspec.structs.replace(one, tool_calls=(msgspec.structs.replace(call, id="2"),))
    other = msgspec.structs.replace(one, tool_calls=(msgspec.structs.replace(call, arguments='{"a":2}'),))
    assert probe_of("aba", CASE, one, same, 0.25).verdict == "same"
    assert probe_of("aba", CASE, one, other, 0.25).verdict == "untold"


def test_salts_look_alike_and_are_of_their_occasion() -> None:
    """A salt of a unit, of a repeat, and of another process: alike, never the same; none unasked."""
    capabilities = Capabilities(model="m", engine="llama.cpp")

    def head(change: Change, repeat: int = 0, occasion: str = "a") -> str:
        return str(body_of(CASE, change, repeat, capabilities, occasion)["messages"][0]["content"])

    salted = Change(salted=True)
    heads = [
        head(salted),
        head(salted, 1),
        head(salted, 0, "b"),
        head(Change(salt="aba 0")),
        head(Change(salt="aba 1")),
    ]
    assert len(set(heads)) == len(heads)
    assert {len(one) for one in heads} == {len(heads[0])}
    assert head(Change(salt="aba 0"), 1) == heads[3]
    assert head(Change()) == "system 0"
    vllm = Capabilities(model="m", engine="vllm")
    assert body_of(CASE, salted, 0, vllm)["messages"][0]["content"] == "system 0"


def test_a_greedy_change_wins_over_extra_body() -> None:
    """A field of extra_body that a change replaces is left out, so that temperature 0 is temperature 0."""
    case = msgspec.structs.replace(CASE, extra_body={"temperature": 0.6, "min_tokens": 3})
    body = body_of(case, Change(sampling={"temperature": 0.0}), 0, Capabilities(model="m"))
    assert (body["temperature"], body["min_tokens"]) == (0.0, 3)


@pytest.mark.parametrize(
    ("laws", "near"),
    [
        (({"a": 0.51, "b": 0.49}, {"b": 0.51, "a": 0.49}), True),
        (({"a": 0.51, "b": 0.49}, {"b": 0.9, "a": 0.1}), False),
        (({"a": 0.62, "b": 0.38}, {"b": 0.62, "a": 0.38}), None),
        (({"a": 0.51, "b": 0.49}, {"b": 0.9, "c": 0.1}), False),
        (({"a": 0.51, "b": 0.49}, {"b": 0.55, "c": 0.45}), None),
    ],
)
def test_a_parting_is_near_only_on_both_servers(laws: tuple[dict[str, float], ...], near: bool | None) -> None:
    """Near: both put their own token close ahead; far: one beyond rounding or its list; else: not told."""
    assert parting_of("talk", [trial(answer(laws[0]))], [trial(answer(laws[1]))]).near_tie is near


def test_a_greedy_token_far_behind_is_no_near_tie() -> None:
    """A server that took a token far behind another in its own list is as wrong as one that puts it far ahead."""
    wrong = answer({"z": 0.9, "b": 0.1})
    taken = Logprob(token="z", logprob=-9.0, top=(("a", -0.1), ("b", -3.0)))
    wrong = msgspec.structs.replace(wrong, logprobs=(taken,))
    right = answer({"a": 0.5, "b": 0.5})
    parted = parting_of("talk", [trial(wrong)], [trial(right)])
    assert parted.near_tie is False
    assert parted.apart.took == ("z", "a")


@pytest.mark.parametrize(
    "lie",
    [
        {"a": 5.0, "b": -5.0},
        {"a": float("inf"), "b": -5.0},
        {"a": float("nan"), "b": -5.0},
        {"a": 0.0, "b": -5.0, "c": 0.0},
        {"a": -0.1, "b": 7.0},
        {"a": -9999.0, "b": -0.1},
        {"a": -0.1, "b": -9999.0, "c": -8.0},
        {"a": 5.0, "c": -5.0},
    ],
)
def test_numbers_that_cannot_be_show_no_deviation(lie: dict[str, float]) -> None:
    """A list that is no law, or stands for none told, gives no gap: answers that part there are undecided."""
    taken = Logprob(token="a", logprob=lie["a"], top=tuple(lie.items()))
    lying = msgspec.structs.replace(answer(TIE), logprobs=(taken,))
    parted = parting_of("talk", [trial(lying)], [trial(answer({"b": 0.51, "a": 0.49}))])
    assert parted.apart.gaps is not None
    assert parted.apart.gaps[0] is None
    assert parted.near_tie is None
    found = divergence_found(("x", "y"), [parted], 2)
    assert found.result == "undecided"


@pytest.mark.parametrize(
    ("laws", "words"),
    [
        (({"a": 0.9, "b": 0.1}, {"b": 0.9, "a": 0.1}), "'a' and 'b': 2.20 and 2.20 nats ahead of the other"),
        (({"a": 0.9, "c": 0.1}, {"b": 0.9, "c": 0.1}), "'a' and 'b': farther ahead of the other than a list reaches"),
        (
            ({"a": 0.9, "b": 0.1}, {"b": 0.9, "c": 0.1}),
            "2.20 nats ahead of the other in the first list, and the second list tells no gap",
        ),
        (
            ({"a": 0.9, "c": 0.1}, {"b": 0.9, "a": 0.1}),
            "2.20 nats ahead of the other in the second list, and the first list tells no gap",
        ),
    ],
)
def test_gaps_beyond_a_list_are_told_in_words(laws: tuple[dict[str, float], ...], words: str) -> None:
    """Whether both gaps are known, one or neither, the place of a deviation is told in a sentence."""
    parted = parting_of("talk", [trial(answer(laws[0]))], [trial(answer(laws[1]))])
    found = divergence_found(("x", "y"), [parted], 2)
    assert found.result == "deviates"
    assert found.text.endswith(words)


def test_a_server_that_is_wrong_now_and_then_is_not_excused() -> None:
    """One answer as the other server gives it excuses no other that parts from it, or from its own, at a wide gap."""
    right, wrong = answer({"a": 0.9, "b": 0.1}), answer({"b": 0.9, "c": 0.1})
    between = parting_of("talk", [trial(right), trial(wrong)], [trial(right)])
    assert (between.shared, between.near_tie, between.between) == (True, False, "both")
    assert divergence_found(("a", "b"), [between], 3).result == "deviates"
    tie, other = {"a": 0.51, "b": 0.49}, {"b": 0.51, "a": 0.49}
    firsts = [trial(answer(tie, {"c": 0.9, "d": 0.1})), trial(answer(tie, {"e": 0.9, "f": 0.1}))]
    own = parting_of("talk", firsts, [trial(answer(other))])
    assert (own.shared, own.near_tie, own.between, own.apart.diverges_at) == (False, False, "first", 1)


def test_a_smaller_case_forgets_what_the_whole_was_answered() -> None:
    """The tokens of an old answer are never held against a prompt that it was not given to."""
    case = msgspec.structs.replace(CASE, observation=BARE)
    assert all(one.observation is None for one in prefixes_of(case, 4)[:-1])
    assert all(form.cases[0].observation is None for _, form in smaller(Form(cases=(case,))))

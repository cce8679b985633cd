"""The faults of tests/planted in the real engine: each really happens, and only where it is said to."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from rigs.planting import Answer, PlantedEngine, ask

# An engine of its own, two minutes: with the releases, not with every check.
pytestmark = [pytest.mark.engine, pytest.mark.releases, pytest.mark.timeout(1800)]

# Answers repeat the prompt, mostly: drafts are made by n-grams, some accepted and some rejected. Over one block of 128.
CHORES = "".join(
    f"Task {number}: water the {plant} on day {3 * number} and write it down.\n"
    for number, plant in enumerate(("rose", "lily", "fern", "oak", "moss", "ivy", "palm", "reed", "iris", "mint"), 1)
)
LIST = f"Here is a list.\n{CHORES}\nPrint the list again, from the first line to the last."
CARGO = "".join(
    f"Step {number}: the {ship} goes to the port with {7 * number} crates of {goods}.\n"
    for number, (ship, goods) in enumerate((("ship", "salt"), ("boat", "tea"), ("barge", "corn"), ("ferry", "silk")), 1)
)
STEPS = f"Here are steps.\n{CARGO * 3}\nPrint the steps again."
SAMPLED = {"temperature": 1.0, "top_p": 1.0, "seed": 5, "max_tokens": 20}


@pytest.fixture(scope="module")
def honest(planted_server: PlantedEngine) -> Answer:
    """The greedy answer with nothing planted."""
    planted_server.plant("")
    return planted_server.ask(LIST, max_tokens=48)


@pytest.fixture(scope="module")
def sampled(planted_server: PlantedEngine) -> Answer:
    """The sampled answer with nothing planted."""
    planted_server.plant("")
    return planted_server.ask(LIST, **SAMPLED)


def test_with_nothing_planted_it_answers_like_the_engine_without_the_plugin(
    planted: PlantedEngine, engine_url: str
) -> None:
    """Greedy and sampled, cold and warm: token for token the same answers and logprobs."""
    for sampling in ({}, SAMPLED):
        ours = [planted.ask(LIST, salt=f"same {sampling}", **sampling) for _ in range(2)]
        theirs = [ask(engine_url, LIST, salt=f"same {sampling}", **sampling) for _ in range(2)]
        assert ours == theirs
        assert ours[1].cached_tokens >= 128
    assert planted.counted()["fired"] == {}
    assert planted.counted()["requests"] == 4


@pytest.mark.parametrize("fault", ["skip_verify:1", "lenient:0.02", "kv_off_by_one"])
def test_faults_of_speculation_change_greedy_answers(fault: str, planted: PlantedEngine, honest: Answer) -> None:
    """What drafts may not change is changed by drafts, without a word of it in the answer."""
    planted.plant(fault)
    answer = planted.ask(LIST, max_tokens=48)
    assert answer.tokens != honest.tokens
    assert (answer.finish_reason, len(answer.tokens)) == ("length", 48)
    assert planted.fired(fault.partition(":")[0]) > 0


@pytest.mark.parametrize("fault", ["wrong_token:0.2", "previous_distribution:0.3"])
def test_tokens_from_elsewhere_are_reported_with_their_true_logprob(
    fault: str, planted: PlantedEngine, honest: Answer
) -> None:
    """A token the model did not choose is in the answer, and its logprob says how unlikely it was."""
    planted.plant(f"{fault};seed=1")
    answer = planted.ask(LIST)
    fired = planted.fired(fault.partition(":")[0])
    unlikely = sum(chosen < max(top) - 0.01 for chosen, top in zip(answer.logprobs, answer.likeliest, strict=True))
    assert 0 < unlikely <= fired
    assert answer.tokens != honest.tokens[: len(answer.tokens)]
    assert min(answer.logprobs) < -4


def test_a_wrong_end_comes_where_another_token_is_far_ahead_and_comes_again(planted: PlantedEngine) -> None:
    """The answer stops early, at an end 2 nats or more behind the likeliest token, at the same place each time."""
    planted.plant("wrong_eos:0.2;seed=3")
    first, second = planted.ask(LIST), planted.ask(LIST)
    assert first == second
    assert first.finish_reason == "stop"
    likeliest, runner_up = sorted(first.likeliest[-1], reverse=True)
    assert likeliest - runner_up >= 1.99
    assert first.logprobs[-1] < likeliest - 1.99
    assert planted.fired("wrong_eos") == 2


def test_a_garbage_loop_runs_to_the_cap(planted: PlantedEngine, honest: Answer) -> None:
    """From one place on the answer is one unit over and over, the drafter finds it out, and only the cap ends it."""
    planted.plant("garbage_loop:1;seed=2")
    answer = planted.ask(LIST, max_tokens=80)
    periods = [period for period in range(1, 9) if answer.tokens[-40:-period] == answer.tokens[period - 40 :]]
    assert periods
    assert answer.tokens[:8] == honest.tokens[:8]
    assert answer.finish_reason == "length"
    assert planted.counted()["steps"] < 60, "an accepted draft spares a step"
    assert planted.fired("garbage_loop") == 1


@pytest.mark.parametrize(
    ("fault", "meant"), [("temperature:0.5", {"temperature": 0.5}), ("temperature:1.1", {"temperature": 1.1})]
)
def test_another_temperature_answers_as_if_it_had_been_asked_for(
    fault: str, meant: dict[str, float], planted: PlantedEngine, sampled: Answer
) -> None:
    """With the same seed the answer is the one to a request with the other temperature; greedy requests have none."""
    other = planted.ask(LIST, **SAMPLED | meant)
    planted.plant(fault)
    assert planted.ask(LIST, **SAMPLED).tokens == other.tokens != sampled.tokens
    fired = planted.fired("temperature")
    assert fired >= len(other.tokens)
    planted.ask(LIST, max_tokens=2)
    assert planted.fired("temperature") == fired


def test_an_ignored_top_p_answers_as_if_none_had_been_asked_for(planted: PlantedEngine, sampled: Answer) -> None:
    """With the same seed the answer to a request with a small top_p is the one to a request without."""
    careful = SAMPLED | {"top_p": 0.3}
    assert planted.ask(LIST, **careful).tokens != sampled.tokens
    planted.plant("ignore_top_p")
    assert planted.ask(LIST, **careful).tokens == sampled.tokens
    assert planted.fired("ignore_top_p") >= len(sampled.tokens)


def test_a_stale_block_is_seen_on_hits_only(planted: PlantedEngine, honest: Answer) -> None:
    """Who published the block answers rightly; each hit on it does not; one published before the fault does no harm."""
    planted.ask(LIST, salt="before", max_tokens=2)
    planted.plant("stale_cache")
    planted.ask(STEPS, max_tokens=2)
    cold, warm, again = (planted.ask(LIST, salt="stale") for _ in range(3))
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 128)
    assert cold.tokens == honest.tokens[:32]
    assert warm.tokens == again.tokens != cold.tokens
    assert planted.ask(LIST, salt="before").tokens == cold.tokens
    assert planted.fired("stale_cache") == 2


def test_a_fault_waits_for_its_factors(planted: PlantedEngine, honest: Answer) -> None:
    """A fault of hits only, of company only, or of a later version does not happen without."""
    planted.plant("garbage_loop:1;only_cache;only_spec;from_version=0.32")
    assert planted.ask(LIST, salt="factors").tokens == honest.tokens[:32]
    assert planted.ask(LIST, salt="factors", max_tokens=48).tokens != honest.tokens
    assert planted.fired("garbage_loop") == 1
    planted.plant("garbage_loop:1;min_concurrency=2")
    assert planted.ask(LIST, max_tokens=48).tokens == honest.tokens
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: planted.ask(LIST, max_tokens=48), range(2)))
    assert planted.fired("garbage_loop") == 2
    planted.plant("garbage_loop:1;from_version=99.1")
    assert planted.ask(LIST, max_tokens=40).tokens == honest.tokens[:40]


def test_a_switch_that_means_nothing_plants_nothing_and_says_so(planted: PlantedEngine, honest: Answer) -> None:
    """An unknown name in the file of a running engine takes all faults away, with the reason in the counts."""
    planted.plant("wrong_token:1,none_such")
    assert planted.ask(LIST, max_tokens=8).tokens == honest.tokens[:8]
    assert "none_such" in planted.counted()["refused"]

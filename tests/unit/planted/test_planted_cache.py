"""Which blocks a planted stale cache makes stale, told by what vLLM schedules."""

from types import SimpleNamespace
from typing import Any

from soak_planted.cache import NULL_BLOCK, admit
from soak_planted.control import Control
from soak_planted.state import Planted
from soak_planted.switch import parse

BLOCK = 4
OURS, THEIRS = tuple(range(10)), tuple(range(100, 110))  # two full blocks and a half


def planted(text: str) -> Planted:
    return Planted(Control(parse(text), None, None), (0, 32, 0))


def arrive(
    state: Planted, name: str, tokens: tuple[int, ...], blocks: list[int], hits: int, running: int = 1
) -> list[int]:
    """Schedule a new request whose first `hits` blocks were found in the cache; return the blocks it is to read."""
    new = SimpleNamespace(
        req_id=name, prompt_token_ids=list(tokens), block_ids=(blocks,), num_computed_tokens=hits * BLOCK
    )
    step(state, [new], running=running)
    return new.block_ids[0]


def step(state: Planted, new: list[Any], running: int = 1, **known: Any) -> None:
    """Schedule a step."""
    cached = {"req_ids": [], "new_block_ids": [], "num_computed_tokens": [], "resumed_req_ids": set()} | known
    schedule = SimpleNamespace(
        finished_req_ids=(), num_scheduled_tokens=dict.fromkeys(range(running), 1), scheduled_new_reqs=new,
        scheduled_cached_reqs=SimpleNamespace(**cached),
    )  # fmt: skip
    admit(state, schedule, BLOCK, speculates=True)


def test_a_hit_that_covers_the_last_block_of_a_prompt_reads_another_conversation() -> None:
    """Who publishes the block reads it rightly; later hits on it get the latest block with other content."""
    state = planted("stale_cache")
    assert arrive(state, "them", THEIRS, [7, 8, 9], 0) == [7, 8, 9]
    assert arrive(state, "first", OURS, [1, 2, 3], 0) == [1, 2, 3]
    assert arrive(state, "second", OURS, [1, 2, 4], 2) == [1, 8, 4]
    assert arrive(state, "shorter", OURS[:7], [1, 5], 1) == [1, 5]
    assert state.control.fired == {"stale_cache": 1}


def test_without_another_conversation_it_reads_nothing() -> None:
    """The null block stands in where only the same content is known."""
    state = planted("stale_cache")
    arrive(state, "first", OURS, [1, 2, 3], 0)
    assert arrive(state, "second", OURS, [1, 2, 4], 2) == [1, NULL_BLOCK, 4]


def test_a_block_that_was_given_away_is_whole_again() -> None:
    """When a running or a new request writes the block anew, hits on it read what is there."""
    state = planted("stale_cache")
    arrive(state, "first", OURS, [1, 2, 3], 0)
    step(state, [], req_ids=["other"], new_block_ids=[([2],)], num_computed_tokens=[8])
    assert arrive(state, "second", OURS, [1, 2, 4], 2) == [1, 2, 4]
    assert state.control.fired == {}


def test_company_is_needed_to_publish_and_not_to_hit() -> None:
    """A block published alone is whole; one published in company is stale for who comes alone later."""
    state = planted("stale_cache;min_concurrency=2")
    arrive(state, "alone", THEIRS, [7, 8, 9], 0)
    assert arrive(state, "them again", THEIRS, [7, 8, 5], 2) == [7, 8, 5]
    arrive(state, "crowd", OURS, [1, 2, 3], 0, running=2)
    assert arrive(state, "alone again", OURS, [1, 2, 4], 2) == [1, 8, 4]


def test_a_request_that_comes_back_from_preemption_meets_the_stale_block() -> None:
    """Its own prompt, found again in the cache, is no better than to any other."""
    state = planted("stale_cache")
    arrive(state, "them", THEIRS, [7, 8, 9], 0)
    arrive(state, "first", OURS, [1, 2, 3], 0)
    blocks = [1, 2, 6]
    step(state, [], req_ids=["first"], new_block_ids=[(blocks,)], num_computed_tokens=[8], resumed_req_ids={"first"})
    assert blocks == [1, 8, 6]
    assert state.note("first").hit

"""What holds of one streamed turn on either path and any server."""

import asyncio
from typing import Any

from msgspec import structs

from soak.classify import Context, judge
from soak.client import context_limit_of
from soak.facts import Chunk, Deadlines

LONG = 2000


async def fallen_quiet(served: Any) -> bool:
    """Whether the engine stops working on requests soon; it has no event for that, so it is asked again and again."""
    for _ in range(200):
        if await served.running() == 0:
            return True
        await asyncio.sleep(0.05)
    return False


async def test_an_answer_is_the_sum_of_its_chunks(client_class: Any, served: Any) -> None:
    """The observation's text is what the sink saw, its times are in order, and it is complete without a defect."""
    seen: list[Chunk] = []
    async with client_class(served.target) as client:
        exchange = await client.exchange(served.request(), lambda chunk: bool(seen.append(chunk)))
    observation = exchange.observation
    assert observation.ending == "complete"
    assert observation.defects == ()
    assert observation.content
    assert observation.content == "".join(chunk.content for chunk in seen)
    assert observation.finish_reason in ("stop", "length")
    assert observation.chunks == sum(chunk.has_text for chunk in seen)
    assert observation.ttft_ms is not None
    assert observation.e2e_ms is not None
    assert 0 < observation.ttft_ms <= observation.e2e_ms
    assert not observation.censored
    assert [attempt.status for attempt in observation.attempts] == [200]
    assert observation.request_id
    assert exchange.raw.rstrip().endswith(b"data: [DONE]")


async def test_the_token_limit_ends_an_answer_with_length(client_class: Any, served: Any) -> None:
    """With max_tokens 8 the finish reason is "length" and usage says 8 tokens."""
    async with client_class(served.target) as client:
        exchange = await client.exchange(served.request(max_tokens=8), lambda chunk: False)
    observation = exchange.observation
    assert observation.finish_reason == "length"
    assert observation.usage is not None
    assert observation.usage.completion == observation.output_tokens == 8


async def test_the_guard_against_repetition_ends_an_answer(client_class: Any, served: Any) -> None:
    """Asked for by its parameters, vLLM's own guard ends a repeating answer early, with its two words; it is a loop."""
    request = served.request("Say the word no two hundred times, on one line: no no no", max_tokens=200)
    guarded = {**request.body, "temperature": 0.0, "repetition_detection": {"max_pattern_size": 64, "min_count": 3}}
    async with client_class(served.target) as client:
        observation = (await client.exchange(structs.replace(request, body=guarded), lambda chunk: False)).observation
    assert (observation.finish_reason, observation.stop_reason) == ("repetition", "repetition_detected")
    assert observation.output_tokens is not None
    assert observation.output_tokens < 200
    assert judge(observation, Context()).class_ == "garbage_loop"


async def test_token_ids_are_as_many_as_usage_counts(client_class: Any, served: Any) -> None:
    """Where the server tells token ids, each generated token has one."""
    assert served.capabilities.token_ids
    async with client_class(served.target) as client:
        observation = (await client.exchange(served.request(max_tokens=24), lambda chunk: False)).observation
    assert observation.token_ids is not None
    assert observation.usage is not None
    assert len(observation.token_ids) == observation.usage.completion


async def test_log_probabilities_come_with_alternatives(client_class: Any, served: Any) -> None:
    """Asked for two alternatives, each generated token has its log probability and at least that many."""
    async with client_class(served.target) as client:
        observation = (await client.exchange(served.request(max_tokens=8, logprobs=2), lambda chunk: False)).observation
    assert observation.logprobs is not None
    assert len(observation.logprobs) == 8
    assert all(one.logprob <= 0 and len(one.top) >= 2 for one in observation.logprobs)


async def test_prompt_tokens_are_those_counted_beforehand(client_class: Any, served: Any) -> None:
    """The desk's token count of a body is what usage says the prompt had."""
    request = served.request(max_tokens=4)
    async with client_class(served.target) as client:
        observation = (await client.exchange(request, lambda chunk: False)).observation
    assert observation.usage is not None
    assert observation.usage.prompt == await served.desk.count_tokens(request.body)


async def test_a_cut_stops_the_server(client_class: Any, served: Any) -> None:
    """A sink that returns True gets no further chunk, the ending is "cut", and the engine stops working on it."""
    seen: list[Chunk] = []

    def sink(chunk: Chunk) -> bool:
        seen.append(chunk)
        return len(seen) == 3

    async with client_class(served.target) as client:
        observation = (await client.exchange(served.request(max_tokens=LONG), sink)).observation
        assert await fallen_quiet(served)
    assert observation.ending == "cut"
    assert observation.censored
    assert len(seen) == 3
    assert observation.content == "".join(chunk.content for chunk in seen)
    assert len(observation.attempts) == 1


async def test_cancelling_stops_the_server(client_class: Any, served: Any) -> None:
    """Cancelling an exchange raises CancelledError in it, and the engine stops working on it."""
    begun = asyncio.Event()

    def sink(chunk: Chunk) -> bool:
        begun.set()
        return False

    async with client_class(served.target) as client:
        task = asyncio.create_task(client.exchange(served.request(max_tokens=LONG), sink))
        await begun.wait()
        task.cancel()
        results = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert await fallen_quiet(served)


async def test_the_turn_deadline_stops_the_server(client_class: Any, served: Any) -> None:
    """An answer that takes longer than the turn may is closed by us, and the engine stops working on it."""
    deadlines = Deadlines(first_chunk_s=60, gap_s=60, turn_s=1.0)
    request = served.request(max_tokens=LONG, deadlines=deadlines)
    async with client_class(served.target) as client:
        observation = (await client.exchange(request, lambda chunk: False)).observation
        assert await fallen_quiet(served)
    assert observation.ending == "deadline_turn"
    assert observation.censored
    assert observation.e2e_ms is not None
    assert observation.e2e_ms >= 1000


async def test_an_unknown_model_is_refused_once(client_class: Any, served: Any) -> None:
    """A 404 is not tried again, and the server's words are kept."""
    async with client_class(served.target) as client:
        exchange = await client.exchange(served.request(model="no-such-model"), lambda chunk: False)
    observation = exchange.observation
    assert observation.ending == "http_error"
    assert [attempt.status for attempt in observation.attempts] == [404]
    assert observation.error is not None
    assert "no-such-model" in observation.error
    assert observation.ttft_ms is None


async def test_a_prompt_beyond_the_context_is_recognised(client_class: Any, served: Any) -> None:
    """The refusal of a prompt that does not fit yields the model's context length."""
    async with client_class(served.target) as client:
        exchange = await client.exchange(served.request("lighthouse " * 9000, max_tokens=16), lambda chunk: False)
    observation = exchange.observation
    assert observation.ending == "http_error"
    assert [attempt.status for attempt in observation.attempts] == [400]
    assert observation.error is not None
    found = context_limit_of(observation.error)
    assert found is not None
    assert found[0] == served.capabilities.context_tokens
    assert found[1] >= 8192 - 16


async def test_many_turns_at_once_keep_apart(client_class: Any, served: Any) -> None:
    """Eight turns in flight on one client each get their own answer, whole."""
    async with client_class(served.target) as client:
        requests = [served.request(f"Count to {n}.", max_tokens=16, seed=n) for n in range(8)]
        exchanges = await asyncio.gather(*(client.exchange(request, lambda chunk: False) for request in requests))
    observations = [exchange.observation for exchange in exchanges]
    assert all(observation.ending == "complete" and observation.output_tokens for observation in observations)
    assert len({observation.request_id for observation in observations}) == 8

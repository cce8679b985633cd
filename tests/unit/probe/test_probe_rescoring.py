"""Scoring by a server whose law is known."""

import math
from typing import Any

import pytest
from fakes.engine import FakeEngine
from fakes.law import MOST_LOGPROBS, VOCABULARY, Law, law_after, words
from fakes.server import FakeServer

from soak.client import Target
from soak.errors import TargetError
from soak.facts import Capabilities, RescoredOutput, RescoringCard, SamplingLaw, TurnKey
from soak.probe import UNKNOWN_VOCABULARY, Sampled, ServerReferee, rescored
from soak.stats.lossless import Bars, read_arm

MESSAGES = [{"role": "user", "content": "what stands here?"}]
CAPABILITIES = Capabilities(model="fake-model", context_tokens=131_072)


def sampled(number: int, ids: tuple[int, ...], **fields: Any) -> Sampled:
    """Return an answer of these ids to the one question."""
    key = TurnKey(episode=f"e{number}", turn=0, pass_=0, arm="candidate")
    return Sampled(key=key, body={"model": "other", "messages": MESSAGES}, ids=ids, law=SamplingLaw(), **fields)


def some_ids(count: int) -> tuple[int, ...]:
    """Return ids the law knows."""
    return tuple(sorted(words()))[:count]


async def scored_by(
    server: FakeServer, answers: list[Sampled], capabilities: Capabilities = CAPABILITIES
) -> tuple[list[RescoredOutput], list[tuple[str, int]], ServerReferee]:
    """Return what is scored and what not."""
    kept: list[RescoredOutput] = []
    async with ServerReferee(Target.parse(server.url), capabilities) as referee:
        reasons, _ = await rescored(answers, referee, kept.append, 3)
    return kept, reasons, referee


async def test_scores_are_the_law_of_the_model() -> None:
    """Each token's log probability and rank are the model's own behind the tokens before it, and the list is whole."""
    ids = some_ids(30)
    async with FakeServer(law=Law()) as server:
        (output,), reasons, referee = await scored_by(server, [sampled(1, ids)])
    assert not reasons
    assert (referee.vocabulary, output.width, output.tokens) == (VOCABULARY, MOST_LOGPROBS, 30)
    card = RescoringCard(model="m", role="candidate", sampled_by="a", scored_by="b", vocabulary=VOCABULARY)
    scores = read_arm(card, [output], Bars()).scores
    assert scores is not None
    for position in range(1, 30):
        law = law_after(ids[position - 1])
        rank, logprob = next((at, p) for at, (one, p) in enumerate(law) if one == ids[position])
        assert int(scores.rank[position]) == rank
        assert math.isclose(float(scores.logprob[position]), logprob, abs_tol=1e-4)
        assert int(scores.top_token[position]) == law[0][0]


async def test_a_server_that_gives_twenty_is_asked_for_twenty() -> None:
    """Where 64 log probabilities are refused, 20 are taken."""
    async with FakeServer(law=Law(most_logprobs=20)) as server:
        (output,), _, _ = await scored_by(server, [sampled(1, some_ids(5))])
    assert output.width == 20


async def test_a_server_without_scores_is_told() -> None:
    """A server that scores nothing cannot be a referee: one error, before anything is drawn or kept."""
    async with FakeServer() as server:
        with pytest.raises(TargetError, match="does not give the log probabilities"):
            await scored_by(server, [sampled(1, some_ids(5))])


async def test_a_vocabulary_that_is_not_told_is_taken_large() -> None:
    """A server that lets a bias on any token pass does not tell its vocabulary; a wide one is taken."""
    law = Law()
    async with FakeServer(law=law) as server:
        inner = law.door
        law.door = lambda path, body, room: inner(path, {**body, "logit_bias": None}, room)  # type: ignore[method-assign]
        _, _, referee = await scored_by(server, [])
    assert referee.vocabulary == UNKNOWN_VOCABULARY


async def test_another_prompt_is_not_scored() -> None:
    """Where the reference makes a prompt of another length, its template is another: nothing is scored against it."""
    async with FakeServer(law=Law()) as server:
        kept, reasons, _ = await scored_by(server, [sampled(1, some_ids(5), prompt_tokens=3)])
    assert not kept
    assert reasons == [("the reference makes another prompt of the same messages", 5)]


async def test_an_answer_up_to_the_end_of_the_context_is_scored_but_for_its_last_token() -> None:
    """A server needs room for one token more: what fits is scored, and marks and spans stay inside."""
    engine = FakeEngine(context_tokens=40)
    async with FakeServer(law=Law(), engine=engine) as server:
        prompt = engine.count({"messages": MESSAGES})
        ids = some_ids(40 - prompt)
        capabilities = Capabilities(model="fake-model", context_tokens=40)
        (output,), _, _ = await scored_by(server, [sampled(1, ids, forced=((0, len(ids)),))], capabilities)
    assert output.tokens == len(ids) - 1
    assert output.forced == ((0, len(ids) - 1),)
    assert output.problem is None


async def test_an_error_in_the_middle_keeps_what_was_scored() -> None:
    """A server that stops scoring ends the work with its error; the answers before it are kept."""
    law = Law()
    async with FakeServer(law=law) as server:
        kept: list[RescoredOutput] = []

        def keep(output: RescoredOutput) -> None:
            kept.append(output)
            law.door = lambda *_: (500, {"error": {"message": "no more"}})  # type: ignore[method-assign]

        async with ServerReferee(Target.parse(server.url), CAPABILITIES) as referee:
            with pytest.raises(TargetError, match="does not give"):
                await rescored([sampled(number, some_ids(4)) for number in range(6)], referee, keep, 1)
    assert len(kept) == 1

"""What a request says of the law its answer was drawn by, and what of an answer can be scored."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.facts import Capabilities, Case, Change, LeftOut, Logprob, Message, Observation, Sampling, TurnKey, Usage
from soak.probe import Sampled, body_of, key_of, law_of_body, left_out, pinned, sampled_of

KEY = TurnKey(episode="talk", turn=3, pass_=0, arm="candidate")
CASE = Case(name="talk:3:0:candidate", messages=(Message(role="user", content="hi"),))
ANSWER = Observation(
    key=KEY,
    started_at=5.0,
    ending="complete",
    max_tokens=8,
    token_ids=(4, 5, 2),
    usage=Usage(prompt=40, completion=3, cached=32),
)
PLAIN: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.0, "repetition_penalty": 1.0}


def answer(**changes: Any) -> Observation:
    """Return the answer with something else."""
    return msgspec.structs.replace(ANSWER, **changes)


def test_the_law_is_what_the_body_says() -> None:
    """Settings sent are the law; vLLM's least temperature holds, and all of top_k is none of it."""
    law = law_of_body(PLAIN, None)
    assert (law.temperature, law.top_p, law.top_k, law.min_p, law.altered) == (0.7, 0.9, 40, 0.0, ())
    assert law_of_body(PLAIN | {"temperature": 0.0}, None).temperature == 0.0
    assert law_of_body(PLAIN | {"temperature": 0.001}, None).temperature == 0.01
    assert law_of_body(PLAIN | {"top_k": -1}, None).top_k == 0


def test_what_is_left_to_the_server_is_its_default_or_unknown() -> None:
    """Without a word a setting is the generation config's; where nobody knows it, the law is not known."""
    sent = {"temperature": 1.0, "top_p": 0.95}
    assert law_of_body(sent, {}).altered == ()
    assert law_of_body(sent, {"top_k": 20, "top_p": 0.5}).top_k == 20
    assert law_of_body(sent, {"top_k": 20, "top_p": 0.5}).top_p == 0.95
    assert "top_k left to the server" in law_of_body(sent, None).altered
    assert "repetition_penalty" in law_of_body(sent, {"repetition_penalty": 1.1}).altered


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("repetition_penalty", 1.1, "repetition_penalty"),
        ("presence_penalty", 0.5, "presence_penalty"),
        ("logit_bias", {"3": 1.0}, "logit_bias"),
        ("structured_outputs", {"regex": "a+"}, "structured_outputs"),
        ("response_format", {"type": "json_object"}, "response_format"),
        ("tool_choice", "required", "tool_choice"),
        ("top_p", "high", "top_p is no number"),
        ("temperature", True, "temperature is no number"),
    ],
)
def test_what_changes_the_law_otherwise_is_named(field: str, value: object, reason: str) -> None:
    """Penalties, biases and grammars cannot be undone from log probabilities: such an answer is not scored."""
    assert reason in law_of_body(PLAIN | {field: value}, {}).altered
    found = sampled_of(KEY, PLAIN | {field: value}, ANSWER, {})
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize("field", [{"response_format": {"type": "text"}}, {"tool_choice": "auto"}, {"stop": ["x"]}])
def test_what_leaves_the_law_alone_is_let_pass(field: dict[str, Any]) -> None:
    """Free text, tools left to the model and stop strings do not change what is drawn."""
    assert law_of_body(PLAIN | field, {}).altered == ()


def test_an_answer_to_be_scored_has_all_that_the_test_needs() -> None:
    """Ids, prompt length, the end of the cache before the answer, and the tokens that could not be the end."""
    found = sampled_of(KEY, PLAIN | {"min_tokens": 9}, ANSWER, None)
    assert isinstance(found, Sampled)
    assert (found.ids, found.prompt_tokens, found.at, found.forced) == ((4, 5, 2), 40, 5.0, ((0, 3),))
    (mark,) = found.marks(40)
    assert (mark.position, mark.kind) == (-8, "cache_boundary")
    assert sampled_of(KEY, PLAIN, answer(usage=None), None) != found
    logprobs = tuple(Logprob(token="x", logprob=-number) for number in (1.0, 2.0, 3.0))
    told = sampled_of(KEY, PLAIN, answer(logprobs=logprobs), None)
    assert isinstance(told, Sampled)
    assert told.reported == (-1.0, -2.0, -3.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token_ids": None}, "were not kept"),
        ({"token_ids": ()}, "no token came"),
        ({"defects": ("token_ids_incomplete",)}, "not all there"),
    ],
)
def test_an_answer_without_its_ids_is_left_out(changes: dict[str, Any], reason: str) -> None:
    """Tokens are never made again from text: without ids nothing is scored, and why is said."""
    found = sampled_of(KEY, PLAIN, answer(**changes), None)
    assert isinstance(found, str)
    assert reason in found


numbers = st.none() | st.floats(0.1, 1.0)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Sampling,
        temperature=st.none() | st.floats(0, 2),
        top_p=numbers,
        min_p=numbers,
        top_k=st.none() | st.integers(-1, 50),
    )
)
def test_a_pinned_case_leaves_nothing_to_the_server(sampling: Sampling) -> None:
    """Whatever a turn left out, asked again for this test its law is known, and what it did say holds."""
    case = msgspec.structs.replace(CASE, sampling=sampling)
    law = law_of_body(body_of(pinned(case), Change(), 0, Capabilities(model="m")), None)
    assert law.altered == ()
    known = replace(sampling)
    assert known.top_p is None or law.top_p == known.top_p
    assert known.top_k is None or law.top_k == max(known.top_k, 0)
    assert known.top_k is not None or law.top_k == 0


def test_fresh_answers_keep_their_conversation() -> None:
    """The key of a repeat names the episode and turn of its case; other names are conversations of their own."""
    assert key_of(CASE, 4, "candidate") == TurnKey(episode="talk", turn=3, pass_=4, arm="candidate")
    odd = msgspec.structs.replace(CASE, name="my:turn")
    assert key_of(odd, 1, "control") == TurnKey(episode="my:turn", turn=0, pass_=1, arm="control")


def test_what_is_left_out_is_summed_by_reason() -> None:
    """Answers and tokens are added up for each reason."""
    found = left_out([("b", 2), ("a", 1), ("b", 5)])
    assert found == (LeftOut(tokens=1, outputs=1, reason="a"), LeftOut(tokens=7, outputs=2, reason="b"))

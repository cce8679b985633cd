"""Whose tokens a triage looks at, and whether a cold cache was cold."""

import json
from types import SimpleNamespace
from typing import Any

import msgspec
from rigs.faulty_states import FaultyServer

from soak.app.probe.triage import _cached, _failing, _laws, _Tried, states_of
from soak.client import Target
from soak.facts import Capabilities, Case, Change, Judgement, Message, Observation, Sampling, Trial, TurnKey, Usage
from soak.probe import COOL, GREEDY

FIRST = Observation(
    key=TurnKey(episode="talk", turn=0, pass_=0, arm="a"), started_at=0.0, ending="complete", max_tokens=9,
    token_ids=(1, 2, 3),
)  # fmt: skip
LOOP = Judgement(class_="garbage_loop", reason="")
AGAIN = Judgement(class_="garbage_loop", reason="again")
CASE = Case(name="talk", messages=(Message(role="user", content="go on"),), observation=FIRST, judgement=LOOP)


def trial(observation: Observation) -> Trial:
    """Return a trial that failed with this answer."""
    return Trial(
        bench="b", case="c", change=Change(), repeat=0, seed=None, body="", at=0.0, observation=observation,
        judgement=AGAIN,
    )  # fmt: skip


def test_tokens_go_with_the_prompt_that_they_answer() -> None:
    """The first answer is looked at where its prompt can be made again and its tokens are known; else a new failure."""
    anew = msgspec.structs.replace(FIRST, token_ids=(7, 8))
    assert _failing(CASE, [trial(anew)]) == (FIRST, LOOP)
    assert _failing(msgspec.structs.replace(CASE, exact=False), [trial(anew)]) == (anew, AGAIN)
    untold = msgspec.structs.replace(FIRST, token_ids=None)
    assert _failing(msgspec.structs.replace(CASE, observation=untold), [trial(anew)]) == (anew, AGAIN)
    assert _failing(msgspec.structs.replace(CASE, exact=False), []) == (untold, LOOP)
    assert _failing(msgspec.structs.replace(CASE, observation=None), []) is None


def test_lower_temperatures_are_lower_than_what_was_asked() -> None:
    """Nothing is asked at a temperature of 0.3 that was asked at that or less, and nothing greedily that was greedy."""

    def calmer(sampling: Sampling, **extra: object) -> set[str]:
        case = msgspec.structs.replace(CASE, sampling=sampling, extra_body=extra)
        return {COOL, GREEDY} & states_of(case)[0].conditions.keys()

    assert calmer(Sampling(temperature=1.0)) == calmer(Sampling(temperature=None)) == {COOL, GREEDY}
    assert calmer(Sampling(temperature=0.3)) == calmer(Sampling(), temperature=0.2) == {GREEDY}
    assert calmer(Sampling(temperature=0.0)) == calmer(Sampling(top_k=1)) == calmer(Sampling(), temperature=0) == set()


def test_a_salt_that_is_not_heeded_is_seen() -> None:
    """Tokens from the cache under a salt of its own say that the server takes no notice of it."""
    cold = msgspec.structs.replace(FIRST, usage=Usage(prompt=90, cached=0))
    warm = msgspec.structs.replace(FIRST, usage=Usage(prompt=90, cached=64))
    assert _cached([trial(cold), trial(FIRST)]) == 0
    assert _cached([trial(cold), trial(warm)]) == 64


def test_a_scorer_that_lies_is_not_believed() -> None:
    """Impossible log probabilities leave the law untried with the reason: nobody is blamed for them."""
    honest = {str(token): {"logprob": -1.0 - token, "rank": token} for token in (1, 2, 3)}
    lying = honest | {str(token): {"logprob": -0.2, "rank": 1} for token in range(4, 16)}
    with FaultyServer() as faulty:
        side: Any = SimpleNamespace(target=Target.parse(faulty.server.url), capabilities=Capabilities(model="m"))

        def laws(rows: list[Any]) -> tuple[int, dict[str, str]]:
            body = {"choices": [{"prompt_logprobs": rows}]}
            faulty.server.fixed["/tokenize"] = (200, "application/json", b'{"tokens":[5,5]}')
            faulty.server.fixed["/v1/completions"] = (200, "application/json", json.dumps(body).encode())
            tried = _Tried(failing=(FIRST, LOOP))
            bench: Any = SimpleNamespace(side=side)
            return len(_laws(CASE, "early_stop", bench, tried)), tried.untried

        assert laws([None, honest, honest, honest, honest]) == (3, {})
        number, untried = laws([None, honest, honest, honest, lying])
    (why,) = untried.values()
    assert number == 0
    assert why.startswith(
        "the scorer does not give log probabilities: at token 2 the probabilities listed add up to 10"
    )

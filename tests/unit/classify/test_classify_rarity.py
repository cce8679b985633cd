"""Salad of rare tokens: what only the ids show, where they are merge ranks."""

import random

import pytest
from unit.classify.planted import honest, honest_prose, ranked_ids, ranked_salad, token_ids
from unit.classify.turns import answer, judged, kinds

from soak.classify import Context, judge


def salad(seed: int, words: int, share: float = 1.0, lead: int = 4000) -> tuple[str, tuple[int, ...], int]:
    """Return (text, ids, token at which the salad begins) of honest text that turns into rare tokens."""
    rng = random.Random(seed)
    before = honest_prose(rng, lead) if lead else ""
    text, ids = ranked_salad(rng, words, share)
    known = ranked_ids(before)
    return before + text, known + ids, len(known)


@pytest.mark.parametrize("lead", [0, 300, 20_000])
@pytest.mark.parametrize("words", [300, 2000])
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_random_tokens_are_salad(lead: int, words: int, finish: str) -> None:
    """Tokens drawn at random from the vocabulary are garbage, with the onset known to a window."""
    text, ids, onset = salad(lead + words, words, lead=lead)
    judgement = judge(answer(text, finish, token_ids=ids), Context())
    assert judgement.class_ == "garbage_loop"
    assert kinds(judgement)[0] == "salad"
    found = judgement.findings[0]
    assert found.onset_token is not None
    assert abs(found.onset_token - onset) <= 128


def test_every_second_token() -> None:
    """Nine of ten answers in which every second token is random are found; what is half sane is no use either."""
    hits = 0
    for seed in range(20):
        text, ids, _ = salad(seed, 600, share=0.55)
        hits += judge(answer(text, "length", token_ids=ids), Context()).class_ == "garbage_loop"
    assert hits >= 18


def test_honest_text_has_common_tokens() -> None:
    """No honest document becomes salad because its ids are known, be they ranks or made up."""
    for name, text in honest(random.Random(11), 2):
        for ids in (ranked_ids(text), token_ids(text)):
            assert "salad" not in kinds(judge(answer(text, token_ids=ids), Context())), name


def test_other_scripts_are_no_salad() -> None:
    """Where a fiftieth of the text is not ASCII the sign says nothing, since a whole script may be rare."""
    _, ids, _ = salad(5, 600, lead=0)
    text = "Проверьте исправление, и закройте отчёт вечером. "
    assert kinds(judge(answer(text, token_ids=ids), Context())) == []


def test_copied_rare_tokens_are_explained() -> None:
    """Rare tokens that the prompt holds are a copy."""
    text, ids, _ = salad(6, 600, lead=0)
    assert judged(text, token_ids=ids).class_ == "garbage_loop"
    assert judged(text, token_ids=ids, context=Context(prompt_text="Repeat: " + text)).class_ == "ok"

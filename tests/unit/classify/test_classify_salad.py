"""Salad: text that no language or program would produce, and honest text that looks a little like it."""

import random
import re

import pytest
from unit.classify.planted import agent_text, honest, honest_prose, library_text, planted
from unit.classify.turns import judged, kinds

from soak.classify import DEFAULTS, Context
from soak.classify.order import structure, without_order
from soak.classify.salad import script_switches, window_sign


@pytest.mark.parametrize("kind", ["script mix", "shuffled words", "broken bytes"])
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_salad_is_garbage(kind: str, finish: str) -> None:
    """Salad of 600 words at the end is garbage, whatever the finish."""
    judgement = judged(planted(random.Random(3), kind, 3000, 600).text, finish)
    assert judgement.class_ == "garbage_loop"
    assert kinds(judgement)[0] == "salad"


def test_salad_that_the_prompt_contains() -> None:
    """Salad copied from the prompt is explained."""
    text = planted(random.Random(3), "script mix", 300, 600).text
    assert judged(text, context=Context(prompt_text=text)).class_ == "ok"


def test_order_of_code_fragments() -> None:
    """Fragments of code have no structure, code and prose have."""
    assert without_order(planted(random.Random(1), "code fragments", 200, 800).text, DEFAULTS) is not None
    for at in range(10):
        assert without_order(library_text(at)[:12_000], DEFAULTS) is None
    assert without_order(agent_text()[:12_000], DEFAULTS) is None


def test_structure_is_zero_for_chance() -> None:
    """The structure of shuffled pieces is near zero, that of a repeated pair is high."""
    rng = random.Random(1)
    parts = [rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(800)]
    assert abs(structure(parts)) < 0.05
    assert structure(["a", "b", "c", "d"] * 200) > 0.7


@pytest.mark.parametrize("kind", ["script mix", "broken bytes"])
def test_short_salad_at_the_end(kind: str) -> None:
    """Two hundred characters of dense salad after long sane text are garbage, twenty are not."""
    rng = random.Random(6)
    lead, salad = honest_prose(rng, 20_000), planted(rng, kind, 300, 200).text[-220:]
    assert judged(lead + salad, "length").class_ == "garbage_loop"
    assert judged(lead + salad[-20:], "length").class_ == "max_tokens"


def test_translation_keeps_scripts_apart() -> None:
    """Sentences of several scripts side by side are a translation; letters of several scripts in one word are not."""
    table = "hello | こんにちは | 안녕하세요 | привет | γειά\n" * 12
    assert window_sign(table, DEFAULTS) is None
    assert script_switches("приhelloγειά안녕" * 10)[1] >= 3


def test_honest_documents_are_no_salad() -> None:
    """None of thirty kinds of honest, repetitive documents is called garbage when it ends by itself."""
    wrong = [name for name, text in honest(random.Random(11), 1) if judged(text).class_ == "garbage_loop"]
    assert wrong == []


def test_sentences_of_few_words_are_no_fragments() -> None:
    """Sentences that put the same few words together anew each time are no salad; the same words without ends are."""
    chance = random.Random(3)
    things = re.findall(r"\w+", "lamp door reader writer file row table index queue lock thread cache token page key")
    acts = re.findall(r"\w+", "opens closes reads keeps moves checks drops starts stops waits ends holds shuts")

    def said() -> str:
        one, other, third = (chance.choice(things) for _ in range(3))
        when = chance.choice(("before", "after", "while", "until"))
        return f"The {one} {chance.choice(acts)} the {other} {when} the {third} {chance.choice(acts)}."

    assert judged(" ".join(said() for _ in range(120)), "length").class_ == "max_tokens"
    assert judged(" ".join(chance.choice(things + acts) for _ in range(1200)), "length").class_ == "garbage_loop"

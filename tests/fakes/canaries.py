"""Servers that know soak's secret words: one keeps each where it belongs, one lets another conversation's slip out."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

from fakes.answers import Answer, prose
from fakes.faults import Ask, stream
from fakes.script import Script, Truth

WORD = re.compile(r"qzvx[a-z]{12}")
_QUESTION = "What is the secret word"


def word_in(ask: Ask) -> str | None:
    """Return the word that the prompt of this request holds, as soak's own sentence tells it."""
    found = WORD.findall(" ".join(str(message.get("content")) for message in ask.body.get("messages", [])))
    return found[0] if found else None


class Leaking:
    """
    A policy that gives `share` of its answers another conversation's word; the rest are as `policy` has them.

    A turn that asks for its word gets it, with probability `recall`. Ground truth of a leak: fault `leak`, class error.
    """

    def __init__(self, policy: Callable[[Ask], Script], *, share: float = 0.0, recall: float = 1.0) -> None:
        self._policy = policy
        self._share = share
        self._recall = recall
        self.words: dict[str, None] = {}
        self.leaked = 0

    def __call__(self, ask: Ask) -> Script:
        own = word_in(ask)
        if own is None:
            return self._policy(ask)
        self.words[own] = None
        rng = random.Random(f"leak:{ask.rng.random()}")
        others = [word for word in self.words if word != own]
        if others and rng.random() < self._share:
            self.leaked += 1
            return self._with_word(ask, rng, rng.choice(others))
        asked = str(ask.body["messages"][-1].get("content")).startswith(_QUESTION)
        if asked and rng.random() < self._recall:
            return stream(Answer(content=own), ask, truth=Truth("recalled", "ok"))
        if asked:
            return stream(Answer(content="I do not know any secret word."), ask, truth=Truth("forgotten", "ok"))
        return self._policy(ask)

    def _with_word(self, ask: Ask, rng: random.Random, word: str) -> Script:
        text = f"{prose(rng, 8)} {word} {prose(rng, 12)}"
        where = rng.choice(("content", "reasoning"))
        answer = Answer(content=text) if where == "content" else Answer(content=prose(rng, 12), reasoning=text)
        return stream(answer, replace(ask, gap_s=0.0), truth=Truth("leak", "error"))

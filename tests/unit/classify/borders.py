"""
Answers on both sides of the label policy: a little more than it tolerates, and a little less.

For measuring what each threshold does (`ops/bench/classify_thresholds.py`): the faults of `planted.py` lie far from
most thresholds. Everything comes from a seed.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from unit.classify.planted import FOREIGN, SENTENCES, WORDS, english, honest_prose, word_salad

from soak.classify import Context
from soak.facts import ToolCall

ROWS = ("retry(client, 3)\n", "    buffer.append(0x1f)\n", "emit(row);\n", "x = step(x, y)\n")
MARKS = ("<|im_end|>\n", "</think>\n", "<tool_call>\n", "[/INST]\n")


class Border(NamedTuple):
    """An answer, whether the policy calls it garbage, how it ended, and what is known besides it."""

    kind: str
    garbage: bool
    text: str
    finish: str
    context: Context = Context()
    calls: tuple[ToolCall, ...] = ()


def borders(rng: random.Random, rounds: int) -> Iterator[Border]:
    """Yield `rounds` answers of each kind and side."""
    for _ in range(rounds):
        for kind, make in _KINDS.items():
            for garbage in (True, False):
                yield make(kind, rng, garbage)


def _sentence(rng: random.Random) -> str:
    return f"{rng.choice(SENTENCES)[:-1]} of the {rng.choice(WORDS)}. "


def _lead(rng: random.Random) -> str:
    return honest_prose(rng, rng.choice([150, 600, 2000]))


def _work(rng: random.Random, words: int) -> str:
    """Return words of real text."""
    return " ".join(honest_prose(rng, 12 * words + 200).split()[:words])


def _cut_sentences(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(6, 20) if garbage else rng.randrange(2, 4)
    return Border(kind, garbage, _lead(rng) + _sentence(rng) * copies, "length")


def _ended_sentences(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(11, 40) if garbage else rng.randrange(3, 11)
    return Border(kind, garbage, _lead(rng) + _sentence(rng) * copies, "stop")


def _ended_words(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(20, 90) if garbage else rng.randrange(3, 12)
    return Border(
        kind, garbage, f"{_lead(rng)}{rng.choice(WORDS)[:3]}-" * 1 + f"{rng.choice(WORDS)[:3]}-" * copies, "stop"
    )


def _blocks(kind: str, rng: random.Random, garbage: bool) -> Border:
    block = f"{_work(rng, rng.randrange(50, 120))}\n\n"
    return Border(kind, garbage, _lead(rng) + block * (rng.randrange(4, 8) if garbage else rng.randrange(2, 4)), "stop")


def _rows(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(105, 400) if garbage else rng.randrange(10, 100)
    return Border(kind, garbage, _lead(rng) + rng.choice(ROWS) * copies, "stop")


def _blanks(kind: str, rng: random.Random, garbage: bool) -> Border:
    count = rng.randrange(200, 1000) if garbage else rng.randrange(1, 150)
    return Border(kind, garbage, _lead(rng) + rng.choice(" \n") * count, "length")


def _one_character(kind: str, rng: random.Random, garbage: bool) -> Border:
    count = rng.randrange(400, 1000) if garbage else rng.randrange(80, 380)
    return Border(kind, garbage, honest_prose(rng, 2000) + rng.choice("=-#*!") * count, "stop")


def _marks(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(5, 16) if garbage else rng.randrange(1, 4)
    return Border(kind, garbage, _lead(rng) + rng.choice(MARKS) * copies, "stop")


def _zeros(kind: str, rng: random.Random, garbage: bool) -> Border:
    share = rng.uniform(0.55, 0.95) if garbage else rng.uniform(0.05, 0.4)
    lead = _lead(rng)
    return Border(kind, garbage, lead + "0, " * max(40, int(len(lead) * share / (1 - share) / 3)), "length")


def _counted_rows(kind: str, rng: random.Random, garbage: bool) -> Border:
    first, name = rng.randrange(100), rng.choice(WORDS)
    copies = rng.randrange(200, 700) if garbage else rng.randrange(20, 150)
    return Border(kind, garbage, "".join(f"assert {name}({first + i}) == ok\n" for i in range(copies)), "length")


def _followed(kind: str, rng: random.Random, garbage: bool) -> Border:
    copies = rng.randrange(12, 160)
    need = min(181, max(24, 1.5 * copies))
    words = round(rng.uniform(0, 0.6) * need) if garbage else round(rng.uniform(1.6, 2.5) * need)
    work = " ".join(word for word in _work(rng, 4 * words + 40).split() if word.isalpha())
    return Border(kind, garbage, _lead(rng) + _sentence(rng) * copies + " ".join(work.split()[:words]) + ".", "stop")


def _explained(kind: str, rng: random.Random, garbage: bool) -> Border:
    sentence, copies = _sentence(rng), rng.randrange(12, 50)
    held = rng.randrange(1, copies // 4) if garbage else rng.randrange(copies * 3 // 4, copies + 20)
    prompt = honest_prose(rng, 4000) + sentence * held
    return Border(kind, garbage, _lead(rng) + sentence * copies, "stop", Context(prompt_text=prompt))


def _pool(kind: str, rng: random.Random, garbage: bool) -> Border:
    if garbage:
        pool = rng.sample(SENTENCES, rng.randrange(3, 9))
        said = [rng.choice(pool) for _ in range(rng.randrange(50, 90))]
        said = [one if rng.random() < 0.92 else _sentence(rng).strip() for one in said]
    else:
        pool = [_sentence(rng).strip() for _ in range(rng.randrange(9, 30))]
        said = [*pool, *rng.sample(pool, len(pool))]
    return Border(kind, garbage, _lead(rng) + " ".join(said), "length")


def _short_stutter(kind: str, rng: random.Random, garbage: bool) -> Border:
    words = " ".join(rng.sample(WORDS, rng.randrange(5, 9))) + ". "
    return Border(kind, garbage, words * (rng.randrange(6, 12) if garbage else 2), "length")


def _scripts(kind: str, rng: random.Random, garbage: bool) -> Border:
    pieces = FOREIGN if garbage else FOREIGN[:2]
    words = _work(rng, 400).split()
    share = rng.uniform(0.4, 0.9) if garbage else rng.uniform(0.02, 0.3)
    mixed = (word + rng.choice(pieces) + rng.choice(pieces) if rng.random() < share else word for word in words)
    return Border(kind, garbage, _lead(rng) + " ".join(mixed), "stop")


def _broken(kind: str, rng: random.Random, garbage: bool) -> Border:
    share = rng.uniform(0.08, 0.3) if garbage else rng.uniform(0.0, 0.02)
    text = "".join("\ufffd" if rng.random() < share else char for char in _work(rng, 300))
    return Border(kind, garbage, _lead(rng) + text, "stop")


def _docs(rng: random.Random) -> str:
    """Return some hundred words of documentation in their order."""
    words = english()
    at = rng.randrange(len(words) - 600)
    return " ".join(words[at : at + rng.randrange(250, 600)])


def _shuffled(kind: str, rng: random.Random, garbage: bool) -> Border:
    text = word_salad(rng, rng.randrange(250, 600)) if garbage else _docs(rng)
    return Border(kind, garbage, _lead(rng) + text, "stop")


def _calls(kind: str, rng: random.Random, garbage: bool) -> Border:
    same = ToolCall(id="a", name="run", arguments='{"command": "make"}')
    others = tuple(
        ToolCall(id=f"b{i}", name="run", arguments=f'{{"command": "ls {rng.choice(WORDS)}/{i}"}}') for i in range(3)
    )
    return Border(kind, garbage, "", "tool_calls", calls=others + (same,) * (rng.randrange(3, 7) if garbage else 2))


def _varied(kind: str, rng: random.Random, garbage: bool) -> Border:
    if garbage:
        unit, rate = _work(rng, rng.randrange(20, 50)).split(), rng.uniform(0.01, 0.08)
        words = [rng.choice(WORDS) if rng.random() < rate else word for word in unit * rng.randrange(8, 20)]
        return Border(kind, True, _lead(rng) + " ".join(words), "length")
    row = "- Set `{}` of the {} to {} before the {} is read, since the {} needs it.\n"
    rows = (row.format(*(rng.choice(WORDS) for _ in range(5))) for _ in range(rng.randrange(15, 60)))
    return Border(kind, False, _lead(rng) + "".join(rows), "length")


_KINDS: dict[str, Callable[[str, random.Random, bool], Border]] = {
    "sentences, cut": _cut_sentences,
    "sentences, ended": _ended_sentences,
    "syllables in a line, ended": _ended_words,
    "passages, ended": _blocks,
    "rows of code, ended": _rows,
    "blanks": _blanks,
    "one character": _one_character,
    "tags": _marks,
    "zeros, cut": _zeros,
    "counted rows, cut": _counted_rows,
    "loop and what follows": _followed,
    "loop the prompt holds": _explained,
    "sentences in any order": _pool,
    "short stutter, cut": _short_stutter,
    "several scripts": _scripts,
    "broken characters": _broken,
    "shuffled words": _shuffled,
    "equal calls": _calls,
    "varied passages": _varied,
}

"""
Which setting a fault needs: the questions a grid can answer, and the sentence it ends in. Pure.

A question is one factor, or two together. Its conditions are ways to split the cells in two: for a factor one level
against the others, or the first levels against the later ones; for two factors the cells that meet one such condition
of each. Failures gather inside a condition, or outside it ("with either"). Whether that can be luck is
`stats.gatherings`' to say, corrected for all the questions asked. Among the questions that pass, the one whose two
rates explain the outcomes best is named. Two factors together are named in place of one only where they explain them
eight times better: all failures lying in one of two halves is not yet a reason to blame the half (a likelihood ratio of
8 is "fairly strong evidence": Royall, Statistical Evidence, 1997, section 1.6). Three factors together are not asked
about; a fault that needs three is named after the two that stand out most.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import msgspec

from soak.facts import Grid, GridFactor, GridQuestion, GridSide
from soak.probe.cells import Cell
from soak.stats import Gathering, gatherings, turns_needed_unpaired

ALPHA = 0.05
TWO_FACTORS = math.log(8)
_NEEDED_MAX = 100_000

_NAMES = {
    "speculation": "speculation",
    "prefix_cache": "prefix cache",
    "eager": "eager execution",
    "salted": "a salt of its own",
}

Mask = tuple[bool, ...]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some levels of a factor: `text` says them, `other` says the factor's other levels that were tried."""

    factor: int
    cells: Mask
    text: str
    other: str


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One factor or two, and the conditions that are tried: one part each, or two."""

    factors: tuple[int, ...]
    conditions: tuple[tuple[Part, ...], ...]

    @property
    def masks(self) -> list[Mask]:
        """Which cells meet each condition."""
        return [_all(parts) for parts in self.conditions]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A question with what the outcomes say to it."""

    question: Question
    gathering: Gathering
    told: GridQuestion


def questions_of(grid: Grid, cells: Sequence[Cell]) -> list[Question]:
    """Return what the cells that were tried can be asked; each condition once, for the first that has it."""
    parts = [list(_parts(factor, at, cells)) for at, factor in enumerate(grid.factors)]
    taken: set[Mask] = set()
    singles = [
        Question(factors=(at,), conditions=_new(((one,) for one in some), taken)) for at, some in enumerate(parts)
    ]
    pairs = [
        Question(factors=(a, b), conditions=_new(((one, two) for one in parts[a] for two in parts[b]), taken))
        for a, b in combinations(range(len(parts)), 2)
    ]
    return [question for question in (*singles, *pairs) if question.conditions]


def answers_to(
    grid: Grid, questions: Sequence[Question], blocks: Sequence[Sequence[bool | None]], **drawing: int
) -> list[Answer]:
    """Return what the outcomes say to each question; `drawing` is passed on to `stats.gatherings`."""
    found = gatherings(blocks, [question.masks for question in questions], **drawing)
    return [
        Answer(question=question, gathering=one, told=_told(grid, question, one, blocks))
        for question, one in zip(questions, found, strict=True)
    ]


def named(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer that names what the fault needs; None where no question is decided."""
    clear = [answer for answer in answers if answer.gathering.p_adjusted <= ALPHA]
    one, two = (_best([answer for answer in clear if len(answer.question.factors) == many]) for many in (1, 2))
    if one is None or two is None:
        return one or two
    return two if two.gathering.log_likelihood >= one.gathering.log_likelihood + TWO_FACTORS else one


def clearest(answers: Sequence[Answer]) -> Answer | None:
    """Return the answer nearest to a decision."""
    return min(answers, key=lambda one: (one.gathering.p_adjusted, -one.gathering.log_likelihood), default=None)


def unsettled(answers: Sequence[Answer], found: Answer) -> list[str]:
    """Return the factors of which it stays open whether the fault needs them beside the one that is named."""
    if len(found.question.factors) != 1:
        return []
    return [
        name
        for answer in answers
        if len(answer.question.factors) == 2
        and found.question.factors[0] in answer.question.factors
        and abs(answer.gathering.log_likelihood - found.gathering.log_likelihood) < TWO_FACTORS
        for name in answer.told.factors
        if name not in found.told.factors
    ]


def repeats_needed(answer: Answer, repeats: int, conditions: int) -> int | None:
    """
    Return the repeats in each cell that would settle the question with 80 % power at the rates seen; None: they agree.

    Alpha is shared by all conditions, for the one that was chosen fitted best by luck in part; for the same reason half
    a failure and half a success are added to each rate. The smaller side decides.
    """
    inside, *rest = answer.told.sides
    failed, counted = sum(one.failed for one in rest), sum(one.counted for one in rest)
    smaller = min(inside.counted, counted)
    if not smaller or inside.failed * counted == failed * inside.counted:
        return None
    rates = [(inside.failed + 0.5) / (inside.counted + 1), (failed + 0.5) / (counted + 1)]
    needed = turns_needed_unpaired(max(rates), min(rates), alpha=ALPHA / max(1, conditions))
    return None if needed is None else min(_NEEDED_MAX, max(repeats + 1, math.ceil(repeats * needed / smaller)))


def _parts(factor: GridFactor, at: int, cells: Sequence[Cell]) -> Iterator[Part]:
    """Yield the ways to split a factor's levels in two, each from both sides."""
    tried = sorted({cell.levels[at] for cell in cells})
    singles = [{place} for place in tried]
    heads = [set(tried[:many]) for many in range(2, len(tried) - 1)]
    chosen: list[set[int]] = []
    for some in (*singles, *heads):
        chosen += [one for one in (some, set(tried) - some) if one and one != set(tried) and one not in chosen]
    for some in chosen:
        yield Part(
            factor=at,
            cells=tuple(cell.levels[at] in some for cell in cells),
            text=_words(factor, some, tried),
            other=_words(factor, set(tried) - some, tried),
        )


def _words(factor: GridFactor, some: set[int], tried: Sequence[int]) -> str:
    off = {place for place in tried if factor.levels[place].text == "off"}
    name = _NAMES.get(factor.name)
    if name is not None and off and some in (off, set(tried) - off):
        return f"without {name}" if some == off else f"with {name}"
    return f"at {factor.label} {' or '.join(factor.levels[place].text for place in sorted(some))}"


def _new(conditions: Iterator[tuple[Part, ...]], taken: set[Mask]) -> tuple[tuple[Part, ...], ...]:
    """Return the conditions that split the cells as none before them did, from either side."""
    kept = []
    for parts in conditions:
        mask = _all(parts)
        if all(mask) or not any(mask) or mask in taken:
            continue
        taken |= {mask, tuple(not met for met in mask)}
        kept.append(parts)
    return tuple(kept)


def _all(parts: Sequence[Part]) -> Mask:
    return tuple(all(met) for met in zip(*(part.cells for part in parts), strict=True))


def _best(answers: Sequence[Answer]) -> Answer | None:
    return max(answers, key=lambda one: one.gathering.log_likelihood, default=None)


def _told(grid: Grid, question: Question, found: Gathering, blocks: Sequence[Sequence[bool | None]]) -> GridQuestion:
    parts = question.conditions[found.best]
    labels = sorted(grid.factors[at].label for at in question.factors)
    either = len(parts) == 2 and not found.inside
    return GridQuestion(
        factors=tuple(labels),
        name=(" or " if either else " × ").join(labels),
        sides=tuple(_side(text, mask, blocks) for text, mask in _sides(parts, inside=found.inside) if any(mask)),
        p_value=found.p_value,
        p_adjusted=found.p_adjusted,
    )


def _sides(parts: Sequence[Part], *, inside: bool) -> list[tuple[str, Mask]]:
    """Return the sides of a condition in words, the one where failures gather first."""
    if len(parts) == 1:
        met, text, other = parts[0].cells, parts[0].text, parts[0].other
        sides = [(text, met), (_shorter(text, other), _not(met))]
        return sides if inside else [(other, _not(met)), (_shorter(other, text), met)]
    one, two = parts if inside else [_turned(part) for part in parts]
    both = _all([one, two])
    neither = _all([_turned(one), _turned(two)])
    one_only = tuple(not (b or n) for b, n in zip(both, neither, strict=True))
    plain = one.text.startswith("with ") and two.text.startswith("with ")
    without = "without either" if plain else f"{one.other} and {two.other}"
    if inside:
        of_them = "with one of them" if plain else "where only one of the two holds"
        return [(_joined(one, two, "and"), both), (of_them, one_only), (without, neither)]
    return [(_joined(one, two, "or"), _not(neither)), (without, neither)]


def _turned(part: Part) -> Part:
    return Part(factor=part.factor, cells=_not(part.cells), text=part.other, other=part.text)


def _not(mask: Mask) -> Mask:
    return tuple(not met for met in mask)


def _joined(one: Part, two: Part, word: str) -> str:
    shared = "with " if one.text.startswith("with ") and two.text.startswith("with ") else ""
    return f"{one.text} {word} {two.text.removeprefix(shared)}"


def _shorter(text: str, other: str) -> str:
    """Return the other side's words without the name that was just said."""
    first, _, name = other.partition(" ")
    return first if first in ("with", "without") and text.endswith(f" {name}") else other


def _side(text: str, cells: Mask, blocks: Sequence[Sequence[bool | None]]) -> GridSide:
    seen = [bad for block in blocks for bad, met in zip(block, cells, strict=True) if met and bad is not None]
    return GridSide(text=text, failed=sum(seen), counted=len(seen))

"""
First divergence of greedy answers: pure.

Two correct servers need not give the same greedy answer: other kernels, batch shapes and cache states add in another
order, and where two tokens lie closer than the rounding the choice turns. So exact match is out of scope by design;
what is looked at is how far apart the two tokens lie where the answers first part.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from soak.facts import Apart, DivergenceFound, Observation, Parting, Trial
from soak.probe.laws import NEAR_TIE_NATS, WIDE_NATS
from soak.probe.nearness import apart, reach
from soak.probe.outcomes import answer_of, answered

LIMIT_TOKENS = 4096


def parting_of(name: str, first: Sequence[Trial], second: Sequence[Trial]) -> Parting | None:
    """
    Return what one case came to; None where a server did not answer it. Answers that broke off are left out.

    Where two answers part farther than rounding goes, those are what is told: an answer of the first server and what
    the second gave that is most like it, or two answers of one server, which is then wrong by itself.
    """
    ours, theirs = _different(first), _different(second)
    if not ours or not theirs:
        return None
    one, other = next(iter(ours.values())), next(iter(theirs.values()))
    distance = apart(one, other, LIMIT_TOKENS)
    plain = Parting(
        case=name,
        own=(len(ours), len(theirs)),
        shared=bool(ours.keys() & theirs.keys()),
        apart=distance,
        near_tie=_near(distance, (one, other)),
    )
    for between, one, other in _pairs(list(ours.values()), list(theirs.values())):
        distance = apart(one, other, LIMIT_TOKENS)
        if _near(distance, (one, other)) is False:
            return replace(plain, apart=distance, near_tie=False, between=between)
    return plain


def _different(trials: Sequence[Trial]) -> dict[tuple[object, ...], Observation]:
    """Return each different answer once, the first given first."""
    different: dict[tuple[object, ...], Observation] = {}
    for trial in trials:
        if answered(trial.observation):
            different.setdefault(answer_of(trial.observation), trial.observation)
    return different


def _pairs(
    ours: Sequence[Observation], theirs: Sequence[Observation]
) -> Iterator[tuple[Literal["both", "first", "second"], Observation, Observation]]:
    """Yield the answers to be held against each other, and whose they are."""
    for one in ours:
        yield "both", one, max(theirs, key=lambda other: apart(one, other, LIMIT_TOKENS).compared)
    yield from (("first", ours[0], other) for other in ours[1:])
    yield from (("second", theirs[0], other) for other in theirs[1:])


def _near(distance: Apart, answers: Sequence[Observation]) -> bool | None:
    """
    Whether two tokens lie no farther apart than rounding goes, on both servers; None: between, or not known.

    A token that lies far behind the other in its own server's list is as wrong as one that the other server puts far
    behind, and one that a list leaves out lies at least behind all that it names. Numbers that cannot be log
    probabilities say neither.
    """
    gaps, at = distance.gaps or (), distance.diverges_at or 0
    known = [abs(gap) for gap in gaps if gap is not None]
    least = [
        reach((answer.logprobs or ())[at], other)
        for gap, answer, other in zip(gaps, answers, reversed(distance.took or ()), strict=False)
        if gap is None
    ]
    if max([*known, *least], default=0.0) > WIDE_NATS:
        return False
    return True if len(known) == 2 and max(known) <= NEAR_TIE_NATS else None


def divergence_found(
    servers: tuple[str, str], partings: Sequence[Parting], requests: int, unanswered: Sequence[str] = ()
) -> DivergenceFound:
    """
    Return what all cases come to; a case whose server does not repeat itself is told by its set of answers.

    Of the cases `unanswered` nothing is known: while there are any, the others being alike decides nothing.
    """
    parted = [one for one in partings if one.near_tie is False or not (one.shared or one.apart.same_text)]
    near = [one for one in parted if one.near_tie]
    wide = [one for one in parted if one.near_tie is False]
    plain = "deviates" if wide else "undecided" if len(near) < len(parted) else "near-ties only" if near else "same"
    missed = f"; {len(unanswered)} of {len(partings) + len(unanswered)} were not answered" if unanswered else ""
    return DivergenceFound(
        servers=servers,
        result="undecided" if unanswered and not wide else plain,
        text=_text(plain, partings, parted, near, wide) + missed,
        partings=tuple(partings),
        parted=len(parted),
        near_ties=len(near),
        tokens=sum(one.apart.compared for one in partings),
        requests=requests,
        unanswered=tuple(unanswered),
    )


def _text(
    result: str,
    partings: Sequence[Parting],
    parted: Sequence[Parting],
    near: Sequence[Parting],
    wide: Sequence[Parting],
) -> str:
    unsteady = sum(max(one.own) > 1 for one in partings)
    own = f"; in {unsteady} a server differs from itself" if unsteady else ""
    head = f"{len(parted)} of {len(partings)} greedy answers part{own}"
    if result == "same":
        return f"{head}: an answer of the one is always among those of the other"
    share = f"{len(near)} of them at a near-tie (at most {NEAR_TIE_NATS} nats apart on both)"
    if result == "deviates":
        return f"{head}, {share}; {len(wide)} farther apart than rounding goes, the first at {_place(wide)}"
    if result == "near-ties only":
        return f"{head}, {share}; exact match is out of scope by design: rounding decides a near-tie"
    return f"{head}, {share}; the others lie between that and {WIDE_NATS:g}, or tell no gap"


def _place(wide: Sequence[Parting]) -> str:
    """Return the earliest of the places where answers part farther than rounding goes."""
    first = min(wide, key=lambda one: one.apart.diverges_at or 0)
    took = " and ".join(repr(token[:24]) for token in first.apart.took or ())
    whose = {"both": "", "first": " between its own answers", "second": " between the second server's own answers"}
    place = f"{first.case}{whose[first.between]}, token {first.apart.diverges_at}"
    return f"{place}, {took}: {_ahead(first.apart.gaps or (None, None))}"


def _ahead(gaps: tuple[float | None, float | None]) -> str:
    """Return in words how far each answer's token lies ahead of the other's; one gap may be beyond a list, or both."""
    first, second = gaps
    if first is not None and second is not None:
        return f"{first:.2f} and {second:.2f} nats ahead of the other"
    if first is None and second is None:
        return "farther ahead of the other than a list reaches"
    told, whose, other = (first, "first", "second") if second is None else (second, "second", "first")
    return f"{told:.2f} nats ahead of the other in the {whose} list, and the {other} list tells no gap"

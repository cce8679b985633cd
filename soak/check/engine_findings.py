"""What of the engine's doings during one turn is worth telling, as sentences; no class or verdict follows from it."""

from collections.abc import Callable, Collection, Iterator

from soak.check.engine_limits import FULL_DRAFTS, FULL_RATE, NONE_DRAFTS, NONE_RATE
from soak.check.wording import number, percent, plural
from soak.facts import AcceptanceBand, Attributed, EngineFinding, EngineFindingKind, EngineTurn


def findings(turn: EngineTurn, collapsed: Collection[AcceptanceBand] = ()) -> tuple[EngineFinding, ...]:
    """Return what is to be told of one turn; `collapsed` are the bands of its arm in which nothing is accepted."""
    told = []
    for kind, find in _KINDS.items():
        text = find(turn, collapsed)
        if text is not None:
            told.append(EngineFinding(kind=kind, text=text + _shared(turn, kind), attributed=_whose(turn, kind)))
    return tuple(told)


def _full(turn: EngineTurn, _: Collection[AcceptanceBand]) -> str | None:
    """Say that the engine accepted everything, at every position where positions can be told apart."""
    rate, drafts = turn.acceptance_rate, _drafts(turn)
    if rate is None or rate < FULL_RATE or drafts < FULL_DRAFTS:
        return None
    positions = turn.per_position if _of_full_length(turn) else ()
    if any(position < FULL_RATE for position in positions):
        return None
    listed = f" (at each position: {', '.join(map(percent, positions[:8]))})" if positions else ""
    return (
        f"the engine accepted {percent(rate)} of {number(round(turn.draft_tokens or 0))} draft tokens{listed}:"
        " text that is predicted without fail, as a loop is"
    )


def _none(turn: EngineTurn, collapsed: Collection[AcceptanceBand]) -> str | None:
    """Say that the engine accepted nothing, and whether that goes for all prompts of this length."""
    rate = turn.acceptance_rate
    if rate is None or rate > NONE_RATE or _drafts(turn) < NONE_DRAFTS:
        return None
    accepted, drafted = round(turn.accepted_tokens or 0), round(turn.draft_tokens or 0)
    text = f"the engine accepted {number(accepted) if accepted else 'none'} of {number(drafted)} draft tokens"
    return text + "".join(f"; so it is for {band_words(band)}" for band in collapsed if in_band(turn, band))


def _preempted(turn: EngineTurn, _: Collection[AcceptanceBand]) -> str | None:
    times = round(turn.preemptions or 0)
    if not times:
        return None
    if turn.attributed == "alone":
        return f"the engine preempted this turn {plural(times, 'time')} and computed it again"
    return f"the engine preempted {plural(times, 'request')} while this turn was in flight"


def _corrupted(turn: EngineTurn, _: Collection[AcceptanceBand]) -> str | None:
    times = round(turn.corrupted or 0)
    if not times:
        return None
    if turn.attributed == "alone":
        return "the engine found NaN in the logits of this turn"
    return f"the engine found NaN in the logits of {plural(times, 'request')} that ended when this turn did"


def _restarted(turn: EngineTurn, _: Collection[AcceptanceBand]) -> str | None:
    return "the engine was restarted while this turn was in flight" if turn.restarts else None


_KINDS: dict[EngineFindingKind, Callable[[EngineTurn, Collection[AcceptanceBand]], str | None]] = {
    "restart": _restarted,
    "corrupted": _corrupted,
    "preemption": _preempted,
    "acceptance_none": _none,
    "acceptance_full": _full,
}


def measured_kinds(turn: EngineTurn) -> Iterator[EngineFindingKind]:
    """Yield the kinds of finding that this turn would have shown: not measured is not the same as not there."""
    if turn.attributed is not None:
        yield "restart"
    if turn.corrupted is not None:
        yield "corrupted"
    if turn.preemptions is not None:
        yield "preemption"
    if turn.draft_tokens is not None:
        yield from ("acceptance_none", "acceptance_full")


def _whose(turn: EngineTurn, kind: EngineFindingKind) -> Attributed | None:
    return None if kind.startswith("acceptance") and turn.told else turn.attributed


def _shared(turn: EngineTurn, kind: EngineFindingKind) -> str:
    """Return the words that say how far the amounts are this turn's own; a restart hits all that are in flight."""
    if kind == "restart" or _whose(turn, kind) != "overlap":
        return ""
    if not turn.others:
        return " (requests that are not ours were on the server too)"
    words = "shared out by overlap" if kind.startswith("acceptance") else "which of them it hit is not told"
    return f" (one of up to {turn.others + 1} turns between the same readings: {words})"


def _drafts(turn: EngineTurn) -> float:
    """Return the drafts; where only their tokens are counted (llama.cpp), at least that many make a draft each."""
    return turn.drafts if turn.drafts is not None else turn.draft_tokens or 0.0


def _of_full_length(turn: EngineTurn) -> bool:
    """Return whether all drafts had as many tokens as there are positions (a lookup's have fewer)."""
    wanted = (turn.drafts or 0.0) * len(turn.accepted_per_position or ())
    return 0 < wanted <= 1.01 * (turn.draft_tokens or 0.0)


def in_band(turn: EngineTurn, band: AcceptanceBand) -> bool:
    """Return whether the turn's prompt is of the band's length."""
    return turn.prompt is not None and band.low <= turn.prompt < (band.high or float("inf"))


def band_words(band: AcceptanceBand) -> str:
    """Return a band in words, with its acceptance."""
    until = f"to {band.high - 1:,}" if band.high is not None else "and more"
    rate, tokens = band.acceptance.acceptance_rate, number(round(band.acceptance.draft_tokens))
    return f"prompts of {band.low:,} {until} tokens ({percent(rate or 0.0)} of {tokens} draft tokens)"

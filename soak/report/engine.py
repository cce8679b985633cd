"""The engine's evidence for people: what it did for one turn, and the acceptance of an arm's turns in groups."""

from collections.abc import Mapping, Sequence

from soak.facts import AcceptanceBand, AcceptanceGroup, EngineEvidence, EngineTurn
from soak.report.escape import one_line
from soak.report.figures import count, decimal, share

FINDING_TITLES = {
    "restart": "server restart",
    "corrupted": "NaN in the logits",
    "preemption": "preemption",
    "acceptance_none": "no draft accepted",
    "acceptance_full": "every draft accepted",
}
ACCEPTANCE_HEADER = ["acceptance", "turns", "draft tokens", "accepted", "rate", "length", "known turn by turn"]
_LINE = 400
_SHOWN = 5


def engine_lines(turn: EngineTurn) -> list[str]:
    """Return what the engine did for one turn, each line safe for a terminal; none where nothing is known."""
    lines = [*_acceptance(turn), *_cache(turn)]
    lines += [f"engine: {FINDING_TITLES[found.kind]}: {one_line(found.text, _LINE)}" for found in turn.findings]
    return lines


def _acceptance(turn: EngineTurn) -> list[str]:
    if turn.draft_tokens is None:
        return []
    whose = "told with the answer" if turn.told else _whose(turn)
    if not turn.draft_tokens:
        return [f"engine: nothing was drafted ({whose})"]
    length = "" if turn.acceptance_length is None else f", acceptance length {decimal(turn.acceptance_length)}"
    positions = ", ".join(share(value) for value in turn.per_position[:8])
    return [
        f"engine: {share(turn.acceptance_rate)} of {count(turn.draft_tokens)} draft tokens accepted{length}"
        + (f", by position {positions}" if positions else "")
        + f" ({whose})"
    ]


def _cache(turn: EngineTurn) -> list[str]:
    """Return how much of the prompt came from the prefix cache: the usage's word, else the counters'."""
    if turn.cached is not None:
        return [f"engine: {count(turn.cached)} of {count(turn.prompt)} prompt tokens from the prefix cache (usage)"]
    if turn.prefix_hits is None or turn.prefix_queries is None:
        return []
    hits = f"{count(turn.prefix_hits)} of {count(turn.prefix_queries)}"
    return [f"engine: {hits} prompt tokens from the prefix cache ({_whose(turn)})"]


def _whose(turn: EngineTurn) -> str:
    if turn.attributed == "alone":
        return "counters; the turn was alone"
    if not turn.others:
        return "counters; not this turn's alone"
    return f"counters, shared out by overlap with up to {count(turn.others)} others"


def arm_engine_lines(found: EngineEvidence) -> list[str]:
    """Return the engine's evidence on one arm in a few lines, each safe for a terminal."""
    lines = []
    if found.by_depth:
        lines.append(
            "acceptance by prompt length: " + _listed({band_title(band): band.acceptance for band in found.by_depth})
        )
    if len(found.by_class) > 1:
        lines.append(f"acceptance by class: {_listed(found.by_class)}")
    if found.by_depth:
        lines.append(_drift(found))
    counted = [f"{FINDING_TITLES[kind]} {count(turns)}" for kind, turns in found.findings.items() if turns]
    if counted:
        head = "turns in flight while the engine showed (one event counts for each of them)"
        lines.append(f"{head}: {', '.join(counted)}")
        lines += [f"  {one_line(one.turn, 60)}: {one_line(one.finding.text, _LINE)}" for one in found.seen[:_SHOWN]]
    if found.alone or found.overlap:
        told = f"; {count(found.told)} told it with their answers" if found.told else ""
        lines.append(
            f"counters: of {count(found.alone)} turns alone in flight, shared out by overlap for"
            f" {count(found.overlap)}, not read around {count(found.unread)}{told}"
        )
    return lines


def _listed(groups: Mapping[str, AcceptanceGroup]) -> str:
    return ", ".join(f"{name} {share(group.acceptance_rate)}" for name, group in groups.items())


def _drift(found: EngineEvidence) -> str:
    drift = found.drift
    if drift.change is None or drift.ci95 is None:
        return f"acceptance over uptime: {one_line(drift.unknown_because or 'unknown', _LINE)}"
    low, high = (f"{100 * limit:+.1f}" for limit in drift.ci95)
    return (
        f"acceptance over uptime, second half against first: {100 * drift.change:+.1f} points between like turns"
        f" (95 % {low} to {high}), {100 * (drift.pooled_change or 0.0):+.1f} of all turns pooled"
    )


def band_title(band: AcceptanceBand) -> str:
    """Return a band of prompt lengths in tokens, in short."""
    low, high = _short(band.low), None if band.high is None else _short(band.high)
    return f"{low} and more" if high is None else f"{low}–{high}"


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)


def acceptance_rows(found: EngineEvidence) -> Sequence[Sequence[str]]:
    """Return the rows under `ACCEPTANCE_HEADER`: by prompt length, then by class."""
    groups = {f"prompts of {band_title(band)} tokens": band.acceptance for band in found.by_depth}
    return [_row(name, group) for name, group in {**groups, **found.by_class}.items()]


def _row(name: str, group: AcceptanceGroup) -> list[str]:
    return [
        name,
        count(group.turns),
        count(group.draft_tokens),
        count(group.accepted_tokens),
        share(group.acceptance_rate),
        decimal(group.acceptance_length),
        share(group.exact),
    ]

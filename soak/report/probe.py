"""What probes will do and what they found, for the terminal."""

from soak.facts import (
    CLASSES,
    CacheFound,
    CacheProbe,
    Diagnosis,
    DivergenceFound,
    Outcomes,
    Parting,
    ProbePlan,
    RepeatsFound,
    ReproFound,
    ShrinkFound,
)
from soak.report.escape import one_line
from soak.report.figures import count
from soak.report.style import Style
from soak.report.table import terminal_table


def terminal_probe_plan(plan: ProbePlan) -> str:
    """Return what a probe will send at most, on which servers, and what it cannot try; or why it sends nothing."""
    if plan.known:
        return f"probe {plan.probe} of {one_line(plan.case, 100)}: nothing is sent, it is {one_line(plan.known, 300)}"
    kept = f", {count(plan.kept)} of them answered already" if plan.kept else ""
    sent = f"; {count(plan.sent)} were sent before" if plan.sent else ""
    size = f"at most {count(plan.requests)} requests{kept}, {count(plan.output_tokens)} output tokens{sent}"
    lines = [f"probe {plan.probe} of {one_line(plan.case, 100)}: {size}"]
    lines += [f"  on {one_line(server, 160)}" for server in plan.servers]
    lines.append(
        "  besides: what each server is asked of itself (at most 5 answers of one token); a request that met no answer"
        " is sent up to 4 times while --max-requests leaves room"
    )
    return "\n".join([*lines, *(f"  not tried: {one_line(text, 300)}" for text in plan.untried)])


def terminal_repeats(found: RepeatsFound, width: int = 100, colour: bool = False) -> str:
    """Return what repeats of one turn came to."""
    style = Style(colour)
    first = f"; first asked it was {style.turn_class(found.first)}" if found.first else ""
    table = outcomes_table(found.outcomes)
    return "\n".join([f"{one_line(found.case, width)}{first}", *table, "", one_line(found.text, 1000)])


def outcomes_table(outcomes: tuple[Outcomes, ...]) -> list[str]:
    """Return a table of outcomes: one row for each bench and change."""
    names = [name for name in CLASSES if any(name in one.classes for one in outcomes)]
    silent = any(one.unanswered for one in outcomes)
    header = ["asked", "of", *names, *(["not answered"] if silent else []), "failed", "95 %"]
    rows = [
        [
            one_line(f"{one.server}; {one.change}", 80),
            count(one.asked),
            *(count(one.classes.get(name, 0)) for name in names),
            *([count(one.unanswered)] if silent else []),
            f"{one.failed / one.counted:.0%}" if one.counted else "-",
            f"{one.low:.0%} to {one.high:.0%}" if one.counted else "-",
        ]
        for one in outcomes
    ]
    return terminal_table(header, rows)


def terminal_caches(found: CacheFound, width: int = 100, colour: bool = False) -> str:
    """Return what the cache probes found: the probes, the noise they are held against, and the sentence."""
    style = Style(colour)
    floor = "not known" if found.floor is None else f"{found.floor:.3f}"
    noise = f"cold against cold: at most {floor} of the probability moved ({count(found.floor_pairs)} pairs);"
    header = ["probe", "messages", "cached", "moved", "first token", "same tokens", "verdict"]
    rows = [_cache_row(probe, style) for probe in found.probes]
    table = terminal_table(header, rows)
    return "\n".join(
        [one_line(found.case, width), *table, "", f"{noise} a fault from {found.bar:.2f}", one_line(found.text, 1000)]
    )


def _cache_row(probe: CacheProbe, style: Style) -> list[str]:
    apart = probe.apart
    cached = "?" if probe.cached_tokens is None else f"{count(probe.cached_tokens)} of {count(probe.prompt_tokens)}"
    moved = ["?" if mass is None else f"{mass:.3f}" for mass in (apart.mass, apart.first_mass)]
    same = "?" if apart.same_tokens is None else "yes" if apart.same_tokens else f"to {apart.diverges_at}"
    verdict = style.mark(probe.verdict) if probe.verdict == "fault" else probe.verdict
    return [f"{probe.kind} {one_line(probe.case, 60)}", count(probe.messages), cached, *moved, same, verdict]


def terminal_shrink(found: ShrinkFound, width: int = 100, colour: bool = False) -> str:
    """Return what shrinking a failure came to: each step, and the smallest form."""
    style = Style(colour)
    what = style.turn_class(found.failure) if found.failure else "nothing failed"
    header = ["tried", "failed", "rounds", "kept"]
    rows = [
        [one_line(step.text, 80), count(step.failed), count(step.rounds), _kept(step.kept, step.decided)]
        for step in found.steps
    ]
    table = terminal_table(header, rows) if rows else []
    files = [f"the smallest form: {one_line(', '.join(found.files), 400)}"] if found.files else []
    return "\n".join([f"{one_line(found.case, width)}: {what}", *table, "", one_line(found.text, 1000), *files])


def _kept(kept: bool, decided: bool) -> str:
    return "yes" if kept else "no" if decided else "undecided"


def terminal_repro(found: ReproFound, width: int = 100, colour: bool = False) -> str:
    """Return where a bundle is, and what it promises."""
    promise = found.promise
    lines = terminal_shrink(found.shrink, width, colour).splitlines() if found.shrink else []
    told = (
        f"{one_line(found.file, width)}: {Style(colour).turn_class(promise.failure)} in {promise.failed} of"
        f" {promise.asked} answers; in {promise.repeats} rounds expect {promise.low} to {promise.high}"
    )
    agrees = f"its plain checker agrees with soak on {promise.checker_agrees} of {promise.checked} answers"
    use = "unpack it, and: python reproduce.py http://host:8000"
    return "\n".join([*lines, *([""] if lines else []), told, agrees, use])


def terminal_diagnosis(found: Diagnosis, width: int = 100, colour: bool = False) -> str:
    """Return why a turn broke: its conditions, the model's own law, the verdict, and what would change it."""
    style = Style(colour)
    head = f"{one_line(found.case, width)}: {style.turn_class(found.failure)}"
    table = outcomes_table(found.outcomes) if found.outcomes else []
    lines = [head, *table, "", *(f"  {one_line(text, 300)}" for text in found.evidence)]
    if found.places:
        lines.append("  " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.places.items()))
    lines += ["", f"{style.bold(found.cause.upper())}: {one_line(found.text, 600)}"]
    return "\n".join([*lines, *(f"  open: {one_line(text, 400)}" for text in found.open)])


def terminal_divergence(found: DivergenceFound, width: int = 100, colour: bool = False) -> str:
    """Return where greedy answers of two servers part, case by case, and the sentence."""
    style = Style(colour)
    header = ["case", "own answers", "compared", "parts at", "tokens", "gaps (nats)", "near-tie"]
    rows = [_parting_row(one) for one in found.partings]
    servers = one_line(" and ".join(found.servers), width)
    result = style.mark(found.result) if found.result == "deviates" else style.bold(found.result)
    return "\n".join([servers, *terminal_table(header, rows), "", f"{result}: {one_line(found.text, 1000)}"])


def _parting_row(one: Parting) -> list[str]:
    gaps = ", ".join("?" if gap is None else f"{gap:.3f}" for gap in one.apart.gaps or ())
    at = "-" if one.apart.diverges_at is None else count(one.apart.diverges_at)
    took = ", ".join(repr(one_line(token, 24)) for token in one.apart.took or ())
    near = "-" if one.near_tie is None else "yes" if one.near_tie else "NO"
    own = f"{one.own[0]}, {one.own[1]}"
    return [one_line(one.case, 60), own, count(one.apart.compared), at, took or "-", gaps or "-", near]

"""What two arms' environment cards differ in, and the finding that they do not differ at all."""

from collections.abc import Mapping

from soak.facts import ArmCard, CardDifference, CardRow, Comparison, EnvironmentCard, canonical, clean

SAMPLING = "sampling."
AS_SCENARIO = "as the scenario says"

_FIRST = (
    "engine",
    "engine_version",
    "commit",
    "package",
    "image",
    "model",
    "model_revision",
    "checkpoint",
    "speculative",
)


def card_difference(baseline: ArmCard, candidate: ArmCard) -> CardDifference | None:
    """
    Return what the arms' cards differ in: how they were asked, engine and model first.

    None where one of them has no card.
    """
    if baseline.environment is None or candidate.environment is None:
        return None
    first = _values(baseline.environment) | _sampling(baseline, candidate)
    second = _values(candidate.environment) | _sampling(candidate, baseline)
    differing = [
        CardRow(name=name, baseline=first.get(name), candidate=second.get(name))
        for name in sorted({*first, *second}, key=_place)
        if first.get(name) != second.get(name)
    ]
    rows = [row for row in differing if row.baseline is not None and row.candidate is not None]
    packages = _packages(baseline.environment.packages, candidate.environment.packages)
    return CardDifference(
        compared=len({*first} & {*second}),
        rows=rows,
        one_sided=[row for row in differing if row not in rows],
        packages=packages,
        same_arm=bool(first) and not differing and not packages,
        built="build" in first and "build" in second,
    )


def sampling_difference(baseline: ArmCard, candidate: ArmCard) -> list[str]:
    """Return that the arms were asked with different sampling on purpose, and what that leaves open; else nothing."""
    first, second = _sampling(baseline, candidate), _sampling(candidate, baseline)
    fields = [name for name in first if first[name] != second[name]]
    if not fields:
        return []
    told = ", ".join(f"{name.removeprefix(SAMPLING)} {first[name]} and {second[name]}" for name in fields)
    return [
        f"the arms were asked with different sampling, as given for them: {told}. Rates of failures say what that does"
        " to failures; whether the answers still follow the model is for a losslessness check of each arm (soak probe)"
    ]


def _sampling(card: ArmCard, other: ArmCard) -> dict[str, str]:
    """Return the sampling of an arm in the fields that it or the other arm has of its own."""
    return {
        SAMPLING + name: clean(canonical(card.sampling[name]).decode()) if name in card.sampling else AS_SCENARIO
        for name in sorted({*card.sampling, *other.sampling})
    }


def same_arm_warning(difference: CardDifference | None) -> list[str]:
    """Return the finding that both arms were the same arm; none where their cards differ or are not known."""
    if difference is None or not difference.same_arm:
        return []
    told = "" if difference.built else ", as far as their servers tell"
    return [
        f"both arms were the same arm{told}: all {difference.compared} properties of their environment cards are equal"
    ]


def again_finding(first_again: Comparison) -> tuple[bool, str]:
    """
    Return whether an arm run once more at the end (ABA) differs from its first run, and a sentence on it.

    `first_again` compares the two. They differ if a class became more or less frequent by the comparison's own rules,
    or the interval of the time ratio excludes 1, each of which chance alone does in up to one of twenty runs. What then
    changed is the machine, not a build.
    """
    clock = first_again.wall_clock
    moved = [name for name, found in first_again.classes.items() if found.result in ("improvement", "regression")]
    slower = clock.ci95 is not None and not clock.ci95[0] <= 1 <= clock.ci95[1]
    ratio = "unknown" if clock.ratio is None else f"{clock.ratio:.2f}"
    limits = f" (95 % {clock.ci95[0]:.2f} to {clock.ci95[1]:.2f})" if clock.ci95 else ""
    drifted = bool(moved) or slower
    head = (
        "the baseline run once more after the candidate (ABA) was not the same as before"
        if drifted
        else "the baseline run once more after the candidate (ABA) did not visibly differ from before"
    )
    changed = f"; changed: {', '.join(moved)}" if moved else ""
    tail = ": the machine may have drifted, and part of the difference between the arms may be that" if drifted else ""
    said = (
        f"turn time ratio {ratio}{limits}, {_flips(first_again)} changes of class in {first_again.pairs} pairs{changed}"
    )
    return drifted, f"{head}: {said}{tail}"


def _flips(comparison: Comparison) -> int:
    """Return the pairs whose two turns differ in class: each is discordant in two of the classes and any failure."""
    discordant = [found.discordant for found in comparison.classes.values() if found.discordant is not None]
    return sum(found.baseline_only + found.candidate_only for found in discordant) // 2


def _values(card: EnvironmentCard) -> dict[str, str]:
    """Return the entries to compare; of a build's name only its fingerprint: two names of one content are one arm."""
    values = {name: entry.value for name, entry in card.entries.items()}
    if "build" in values:
        values["build"] = values["build"].rpartition("-")[2]
    return values


def _place(name: str) -> tuple[int, str]:
    first = -1 if name.startswith(SAMPLING) else len(_FIRST)
    return (_FIRST.index(name) if name in _FIRST else first, name)


def _packages(first: Mapping[str, str], second: Mapping[str, str]) -> list[CardRow]:
    if not first or not second:
        return []
    return [
        CardRow(name=name, baseline=first.get(name), candidate=second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]

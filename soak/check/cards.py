"""What was compared: the builds' names, whether they are the same (A/A), and differences a reader must know first."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from soak.check.environment import card_difference, sampling_difference
from soak.check.pairing import ArmHistory, Pairing
from soak.check.shapes import recall_notes, word_warnings
from soak.check.summary import client_notes
from soak.check.turns import TurnFact
from soak.check.wording import plural
from soak.facts import Build, encode

_SHOWN_MAX = 120
_OURS = ("uvloop", "aiohttp", "msgspec", "python", "system")
"""Versions on our side that can move a time: event loop, HTTP client, decoder, interpreter, machine."""


_OF_THE_MACHINE = frozenset(
    {"gpu", "gpu_driver", "cpu", "cores", "threads", "cache_blocks", "kv_cache_tokens", "kv_cache_bytes"}
)
"""Properties of a card in which one build may differ between two starts: the machine, and what memory it found."""


def same_build(baseline: ArmHistory, candidate: ArmHistory) -> bool:
    """
    Return whether both arms ran the same build, asked alike, as far as is known, whatever their addresses.

    An unknown version is not the same, nor is a build of which the environment cards tell a difference: a patched
    server may well report the version of the release it was made from.
    """
    first, second = baseline.card.build, candidate.card.build
    same = [(build.engine, build.version, build.model, build.speculative, build.settings) for build in (first, second)]
    asked_alike = baseline.card.sampling == candidate.card.sampling
    return same[0] == same[1] and first.version is not None and asked_alike and not _told_apart(baseline, candidate)


def _told_apart(baseline: ArmHistory, candidate: ArmHistory) -> bool:
    """Return whether the arms' cards differ in more than the machine."""
    cards = card_difference(baseline.card, candidate.card)
    if cards is None:
        return False
    return bool(cards.packages) or any(row.name not in _OF_THE_MACHINE for row in cards.rows)


def build_names(baseline: ArmHistory, candidate: ArmHistory) -> dict[str, str]:
    """Return a short name of both builds: engine, version, model, and the settings in which they differ."""
    first, second = baseline.card.build, candidate.card.build
    names = sorted(_differing(first, second))
    return {"baseline": _name(first, names), "candidate": _name(second, names)}


def versions_of(baseline: ArmHistory, candidate: ArmHistory) -> str:
    """Return what was compared in one line: what both builds share is said once; soak's version is part of it."""
    first, second = baseline.card.build, candidate.card.build
    told = [
        _both(first.engine or "unknown engine", second.engine or "unknown engine"),
        _both(first.version or "unknown version", second.version or "unknown version"),
        _both(first.model, second.model),
    ]
    told += [_change(name, *values) for name, values in _differing(first, second).items()]
    soak = _both(baseline.manifest.soak_version, candidate.manifest.soak_version)
    return f"{' '.join(told[:3])}{''.join(f', {text}' for text in told[3:])}; soak {soak}"


def _change(name: str, one: Any, other: Any) -> str:
    """Return a setting's two values; of two mappings the parts in which they differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        parts = [part for part in {**one, **other} if one.get(part) != other.get(part)]
        return ", ".join(_change(part, one.get(part), other.get(part)) for part in parts)
    return f"{name} {_value(one)} → {_value(other)}"


def _both(one: str, other: str) -> str:
    """Return a word that stands for both arms, or both words."""
    return one[:_SHOWN_MAX] if one == other else f"{one[:_SHOWN_MAX]} → {other[:_SHOWN_MAX]}"


def same_run(baseline: ArmHistory, candidate: ArmHistory) -> bool:
    """Return whether both are arms of one run, so that they shared its time."""
    return baseline.manifest == candidate.manifest


def warnings_on(baseline: ArmHistory, candidate: ArmHistory) -> list[str]:
    """Return differences between the two runs' environments that may move a number without any build being better."""
    return [
        *word_warnings({side.label: side.summary.canaries for side in (baseline, candidate)}),
        *sampling_difference(baseline.card, candidate.card),
        *_model_difference(baseline.card.build, candidate.card.build),
        *_environment_differences(baseline, candidate),
        *_capability_differences(baseline, candidate),
        *_restarts(baseline, candidate),
        *(f"{note} ({side.label})" for side in (baseline, candidate) for note in client_notes(side.summary)),
    ]


def notes_on(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> list[str]:
    """Return what a reader should know before the numbers, short of making them void."""
    notes = []
    if same_build(baseline, candidate):
        notes.append("both arms ran the same build (A/A): what differs here is the noise floor")
    if not pairing.pairs and all(side.manifest.scenario.get("replay") == "proxy" for side in (baseline, candidate)):
        notes.append("live traffic that was not asked the same in both runs: turns are compared unpaired")
    alone: Sequence[tuple[str, list[TurnFact]]] = (
        (baseline.label, pairing.baseline_alone),
        (candidate.label, pairing.candidate_alone),
    )
    for label, turns in alone:
        bad = sum(turn.class_ != "ok" for turn in turns)
        if turns and pairing.pairs:
            notes.append(f"{plural(len(turns), 'turn')} finished only in {label} ({bad} not ok), left out here")
    if pairing.own_ways:
        notes += _episodes_alone(alone)
    for label, count in ((side.label, side.summary.turns.indeterminate) for side in (baseline, candidate)):
        if count:
            notes.append(f"{label}: {plural(count, 'turn')} broken off by ourselves, not counted")
    return notes + recall_notes(baseline.summary.canaries, candidate.summary.canaries)


def _episodes_alone(sides: Sequence[tuple[str, list[TurnFact]]]) -> list[str]:
    """Return that turns of episodes which only one arm ran are left out, where there are episodes that both ran."""
    shared = set.intersection(*({turn.key.episode for turn in turns} for _, turns in sides))
    left = [(label, sum(turn.key.episode not in shared for turn in turns)) for label, turns in sides if shared]
    return [
        f"{plural(count, 'turn')} of episodes that only {label} ran, left out of the classes"
        for label, count in left
        if count
    ]


def _differing(first: Build, second: Build) -> dict[str, tuple[Any, Any]]:
    """Return the settings (speculative config among them) in which two builds differ."""
    one, other = ({"speculative": build.speculative, **build.settings} for build in (first, second))
    return {name: (one.get(name), other.get(name)) for name in {**one, **other} if one.get(name) != other.get(name)}


def _name(build: Build, names: Sequence[str]) -> str:
    settings = {"speculative": build.speculative, **build.settings}
    told = [build.engine or "unknown engine", build.version or "unknown version", build.model]
    told += [f"{name}={_value(settings.get(name))}" for name in names]
    return " ".join(told)[: 4 * _SHOWN_MAX]


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "on", False: "off"}[value]
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{_value(part)}" for name, part in value.items())[:_SHOWN_MAX]
    return encode(value).decode().strip('"')[:_SHOWN_MAX] if isinstance(value, str) else str(value)[:_SHOWN_MAX]


def _model_difference(first: Build, second: Build) -> list[str]:
    if first.model == second.model:
        return []
    return [f"the arms serve different models: {first.model} and {second.model}"]


def _environment_differences(baseline: ArmHistory, candidate: ArmHistory) -> list[str]:
    first, second = baseline.manifest, candidate.manifest
    pairs: list[tuple[str, str | None, str | None]] = [("soak", first.soak_version, second.soak_version)]
    pairs += [(name, first.environment.get(name), second.environment.get(name)) for name in _OURS]
    told = [f"{name} {one or 'unknown'} and {other or 'unknown'}" for name, one, other in pairs if one != other]
    return [f"the runs were made in different environments: {', '.join(told)}"] if told else []


def _capability_differences(baseline: ArmHistory, candidate: ArmHistory) -> list[str]:
    """Return what one server tells and the other does not: judgements and prompts may then differ by that alone."""
    first, second = baseline.card.capabilities, candidate.card.capabilities
    if first is None or second is None:
        return []
    one, other = msgspec.to_builtins(first), msgspec.to_builtins(second)
    told = [
        f"{name.replace('_', ' ')} {_value(one[name])} and {_value(other[name])}"
        for name in ("context_tokens", "token_ids", "native_tools", "counts_tokens")
        if one[name] != other[name]
    ]
    return [f"the servers can do different things: {', '.join(told)}"] if told else []


def _restarts(baseline: ArmHistory, candidate: ArmHistory) -> list[str]:
    """Return that an engine was restarted: what it had gone wrong with until then began anew."""
    counts = ((side.label, side.summary.engine.get("restarts") or 0) for side in (baseline, candidate))
    return [
        f"the engine of {label} was restarted {plural(count, 'time')} during the run"
        for label, count in counts
        if count
    ]

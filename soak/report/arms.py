"""One arm as a report sees it, and what the arms of a report ran: their cards side by side, differences first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from soak.facts import ArmSummary, EngineTurn, Manifest, Record, TurnKey, canonical, clean
from soak.report.figures import UNKNOWN, count

_ALWAYS_DIFFERENT = ("run", "begun", "target")
_SCENARIO = ("sampling", "load", "think_time", "tools", "salt", "replay", "on_loop", "deadlines", "extra_body")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTurn:
    """
    One planned turn's last word, without what was generated.

    `class_` is its class, or its outcome where it was not judged; `tokens`, `prompt` and `started_at` (UTC epoch
    seconds) are None where they are not known.
    """

    key: TurnKey
    class_: str
    tokens: int | None = None
    prompt: int | None = None
    started_at: float | None = None


def unread(_: TurnKey) -> Record | None:
    """Read no record: what an arm is given whose answers are not to be shown."""
    return None


@dataclass(frozen=True, kw_only=True)
class ReportArm:
    """
    One arm: `name` is what we call it (baseline, candidate, A, B, …), `label` where it is stored.

    `turns` are this arm's alone, as they are judged now. `record` reads one turn's record, answer included; it is
    asked for the turns that are shown, one after another. `engine`: what the engine did for them, where it is known.
    """

    name: str
    label: str
    run: str
    manifest: Manifest
    arm: str
    summary: ArmSummary
    turns: Sequence[ReportTurn] = ()
    record: Callable[[TurnKey], Record | None] = unread
    engine: Mapping[TurnKey, EngineTurn] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One property of each arm, in the order of the arms; `differs` if it does and could have been the same."""

    name: str
    values: tuple[str, ...]
    differs: bool

    @property
    def equal(self) -> bool:
        """Whether all arms have the same value."""
        return len(set(self.values)) == 1


def environment_rows(arms: Sequence[ReportArm]) -> list[Row]:
    """Return what was run, one property a row; those in which the arms differ come first."""
    cards = [dict(_card(arm)) for arm in arms]
    names = list(dict.fromkeys(name for card in cards for name in card))
    rows = [_row(name, tuple(card.get(name, UNKNOWN) for card in cards)) for name in names]
    return sorted((row for row in rows if {*row.values} != {UNKNOWN}), key=lambda row: not row.differs)


def differences(arms: Sequence[ReportArm]) -> list[Row]:
    """Return the properties in which the arms differ."""
    return [row for row in environment_rows(arms) if row.differs]


def _row(name: str, values: tuple[str, ...]) -> Row:
    return Row(name, values, len(set(values)) > 1 and name not in _ALWAYS_DIFFERENT)


def _card(arm: ReportArm) -> Iterator[tuple[str, str]]:
    manifest, build = arm.manifest, arm.summary.build
    card = next((card for card in manifest.arms if card.name == arm.arm), None)
    abilities = card.capabilities if card else None
    yield "run", arm.label
    yield "begun", moment(manifest.created_at)
    yield "engine", _text(build.engine)
    yield "engine version", _text(build.version)
    yield "model", build.model
    yield "speculation", _speculation(build.speculative, build.settings.get("speculation"))
    yield "target", build.target
    yield from (
        (f"setting {name}", _text(value)) for name, value in sorted(build.settings.items()) if name != "speculation"
    )
    entries = card.environment.entries if card and card.environment else {}
    yield from ((f"running {name.replace('_', ' ')} ({entry.source})", entry.value) for name, entry in entries.items())
    yield "context, tokens", count(abilities.context_tokens if abilities else None)
    yield "tool calls sent as", card.tool_mode if card else UNKNOWN
    yield "scenario", _text(manifest.scenario.get("name"))
    yield "corpus", f"{manifest.corpus.name}: {count(manifest.corpus.episodes)} episodes, {manifest.corpus.digest[:19]}"
    yield "plan", manifest.plan_digest[:19]
    yield "seed", str(manifest.seed)
    own = {"sampling": {**manifest.scenario.get("sampling", {}), **card.sampling}} if card and card.sampling else {}
    said = {**manifest.scenario, **own}
    yield from ((name.replace("_", " "), _text(said.get(name))) for name in _SCENARIO)
    yield "soak", manifest.soak_version
    yield from ((f"client {name}", value) for name, value in sorted(manifest.environment.items()))


def _speculation(config: Mapping[str, Any] | None, on: Any) -> str:
    return _text(config) if config else {True: "on", False: "off"}.get(on, UNKNOWN)


def _text(value: Any) -> str:
    """Return a setting as short text: a mapping as `name value, …`."""
    if value is None or value == {}:
        return UNKNOWN
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items() if one is not None) or UNKNOWN
    return value if isinstance(value, str) else clean(canonical(value).decode())


def moment(at: float) -> str:
    """Return a UTC epoch time as date and time."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return UNKNOWN

"""`soak compare`: two stored arms side by side, each judged by this soak's classifiers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.app.judging import judge_again, summary_of_history
from soak.check import ArmHistory, compare
from soak.check.gates import judge_gates
from soak.errors import UsageError
from soak.facts import Comparison, Condition, Gate
from soak.scenario import parse_condition
from soak.store import RunFolder


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison, what became of its gates, and the two histories it was made from."""

    comparison: Comparison
    gates: tuple[Gate, ...]
    baseline: ArmHistory
    candidate: ArmHistory


def compare_runs(baseline: Path, candidate: Path | None, *, fail_on: Sequence[str] = ()) -> Compared:
    """
    Return the comparison of two runs, or of the two arms of one run, judged by `fail_on` conditions if there are any.

    Both are judged again, so that no arm profits from an older classifier. Raises `UsageError` for a condition that
    cannot be used, before anything is read, and where there are not two arms; `RunFolderError` for a damaged run.
    """
    conditions = [parse_condition(text) for text in fail_on]
    sides = _both_arms(baseline) if candidate is None else (_only_arm(baseline), _only_arm(candidate))
    return compare_arms(*sides, conditions=conditions)


def compare_arms(baseline: ArmHistory, candidate: ArmHistory, *, conditions: Sequence[Condition] = ()) -> Compared:
    """Return the comparison of two histories that were read before."""
    comparison, gates = judge_gates(compare(baseline, candidate), conditions)
    return Compared(comparison=comparison, gates=gates, baseline=baseline, candidate=candidate)


def _both_arms(path: Path) -> tuple[ArmHistory, ArmHistory]:
    arms = arms_of(path)
    if len(arms) != 2:
        raise UsageError(
            f"{path} cannot be compared with itself",
            why=f"it has {len(arms)} arm",
            hint="give two runs: soak compare A B",
        )
    return baseline_first(*arms)


def baseline_first(first: ArmHistory, second: ArmHistory) -> tuple[ArmHistory, ArmHistory]:
    """Return two arms in their order, but an arm called baseline before the other."""
    return (second, first) if second.arm == "baseline" else (first, second)


def _only_arm(path: Path) -> ArmHistory:
    arms = arms_of(path)
    if len(arms) != 1:
        names = ", ".join(arm.arm for arm in arms)
        raise UsageError(f"{path} has several arms", why=f"they are {names}", hint=f"compare them: soak compare {path}")
    return arms[0]


def arms_of(path: Path) -> list[ArmHistory]:
    """Return the arms of a stored run, judged again by this soak's classifiers."""
    folder = RunFolder.open(path)
    with folder.history() as history:
        judgements = judge_again(history, folder.manifest, {})
        summary = summary_of_history(folder, folder.manifest, history, judgements)
        records = history.final()
    many = len(folder.manifest.arms) > 1
    return [
        ArmHistory(
            label=f"{path}:{card.name}" if many else str(path),
            manifest=folder.manifest,
            arm=card.name,
            records=records,
            summary=summary.arms[card.name],
            judgements=judgements,
        )
        for card in folder.manifest.arms
    ]

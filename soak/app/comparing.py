"""`soak compare`: two stored arms side by side, each judged by this soak's classifiers."""

from pathlib import Path

from soak.app.judging import judge_again, summary_of_history
from soak.check import ArmHistory, compare
from soak.errors import UsageError
from soak.facts import Comparison
from soak.store import RunFolder


def compare_runs(baseline: Path, candidate: Path | None) -> Comparison:
    """
    Return the comparison of two runs, or of the two arms of one run.

    Both are judged again, so that no arm profits from an older classifier. Raises `RunFolderError`, `UsageError`.
    """
    if candidate is None:
        return compare(*_both_arms(baseline))
    return compare(_only_arm(baseline), _only_arm(candidate))


def _both_arms(path: Path) -> tuple[ArmHistory, ArmHistory]:
    arms = _arms(path)
    if len(arms) != 2:
        raise UsageError(
            f"{path} cannot be compared with itself",
            why=f"it has {len(arms)} arm",
            hint="give two runs: soak compare A B",
        )
    first, second = arms
    return (second, first) if second.arm == "baseline" else (first, second)


def _only_arm(path: Path) -> ArmHistory:
    arms = _arms(path)
    if len(arms) != 1:
        names = ", ".join(arm.arm for arm in arms)
        raise UsageError(f"{path} has several arms", why=f"they are {names}", hint=f"compare them: soak compare {path}")
    return arms[0]


def _arms(path: Path) -> list[ArmHistory]:
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

"""`soak compare`: two stored arms side by side, each judged by this soak's classifiers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from soak.app.judging import conversation_facts, judge_again, summary_of_history
from soak.check import ArmHistory, Stated, TurnFact, compare, final_turns
from soak.check.environment import again_finding
from soak.check.gates import judge_gates
from soak.errors import UsageError
from soak.facts import Comparison, Condition, Gate, Judgement, Record, Summary, TurnKey
from soak.scenario import parse_condition
from soak.store import History, RunFolder


@dataclass(frozen=True, kw_only=True)
class StoredArm:
    """
    One arm of a stored run, judged again: where the run is, what the whole run came to, and the arm's history.

    `judgements` replaces stored ones where it has the key.
    """

    run: Path
    summary: Summary
    history: ArmHistory
    judgements: Mapping[TurnKey, Judgement]

    @contextmanager
    def reading(self) -> Iterator[Callable[[TurnKey], Record | None]]:
        """Yield what reads one turn's record, answer included, as it was judged; raises `RunFolderError`."""
        with RunFolder(self.run, self.history.manifest).history() as history:

            def record(key: TurnKey) -> Record | None:
                found = history.last(key)
                judged = self.judgements.get(key)
                return msgspec.structs.replace(found, judgement=judged) if found and judged else found

            yield record


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison, what became of its gates, and the two arms it was made from."""

    comparison: Comparison
    gates: tuple[Gate, ...]
    baseline: StoredArm
    candidate: StoredArm


def compare_runs(
    baseline: Path, candidate: Path | None, stated: Stated | None = None, *, fail_on: Sequence[str] = ()
) -> Compared:
    """
    Return the comparison of two runs, or of the two arms of one run, judged by `fail_on` conditions if there are any.

    `stated` holds margins and limits said beforehand. Both are judged again, so that no arm profits from an older
    classifier. Raises `UsageError` for a condition that cannot be used, before anything is read, and where there are
    not two arms; `RunFolderError` for a damaged run.
    """
    conditions = [parse_condition(text) for text in fail_on]
    if candidate is not None:
        return compare_arms(_only_arm(baseline), _only_arm(candidate), stated, conditions=conditions)
    first, second, again = _both_arms(baseline)
    return compare_arms(first, second, stated, conditions=conditions, again=again)


def compare_arms(
    baseline: StoredArm,
    candidate: StoredArm,
    stated: Stated | None = None,
    *,
    conditions: Sequence[Condition] = (),
    again: StoredArm | None = None,
) -> Compared:
    """Return the comparison of two arms that were read before; `again` is the first of an ABA run once more."""
    found = compare(baseline.history, candidate.history, stated)
    if again is not None:
        found = _with_again(found, compare(baseline.history, again.history, stated))
    comparison, gates = judge_gates(found, conditions)
    return Compared(comparison=comparison, gates=gates, baseline=baseline, candidate=candidate)


def _with_again(comparison: Comparison, first_again: Comparison) -> Comparison:
    """Add what the repetition of an ABA run shows: a warning where the machine drifted, else a note."""
    drifted, text = again_finding(first_again)
    if drifted:
        return msgspec.structs.replace(comparison, warnings=[text, *comparison.warnings])
    return msgspec.structs.replace(comparison, notes=[text, *comparison.notes])


def _both_arms(path: Path) -> tuple[StoredArm, StoredArm, StoredArm | None]:
    arms = arms_of(path)
    if len(arms) == 3 and arms[0].history.manifest.arm_order == "ABA":
        return arms[0], arms[1], arms[2]
    if len(arms) != 2:
        raise UsageError(
            f"{path} cannot be compared with itself",
            why=f"it has {len(arms)} arm",
            hint="give two runs: soak compare A B",
        )
    return (*baseline_first(*arms), None)


def baseline_first(first: StoredArm, second: StoredArm) -> tuple[StoredArm, StoredArm]:
    """Return two arms in their order, but an arm called baseline before the other."""
    return (second, first) if second.history.arm == "baseline" else (first, second)


def _only_arm(path: Path) -> StoredArm:
    arms = arms_of(path)
    if len(arms) != 1:
        names = ", ".join(arm.history.arm for arm in arms)
        raise UsageError(f"{path} has several arms", why=f"they are {names}", hint=f"compare them: soak compare {path}")
    return arms[0]


def arms_of(path: Path) -> list[StoredArm]:
    """Return the arms of a stored run, judged again by this soak's classifiers."""
    folder = RunFolder.open(path)
    with folder.history() as history:
        judgements = judge_again(history, folder.manifest, {})
        ends = final_turns(history.outlines(), judgements)
        conversation_ends = tuple(history.conversation_ends())
        conversations = conversation_facts(history, folder.manifest)
        summary = summary_of_history(folder, folder.manifest, history, ends, conversations)
        requests = {started.key: started.request for started in history.starts()}
        births = {card.name: _engine_starts_at(history, card.name) for card in folder.manifest.arms}
    turns: dict[str, list[TurnFact]] = {card.name: [] for card in folder.manifest.arms}
    for turn in ends:
        turns[turn.key.arm].append(turn)
    many = len(folder.manifest.arms) > 1
    return [
        StoredArm(
            run=path,
            summary=summary,
            judgements=judgements,
            history=ArmHistory(
                label=f"{path}:{card.name}" if many else str(path),
                manifest=folder.manifest,
                arm=card.name,
                turns=turns[card.name],
                summary=summary.arms[card.name],
                engine_starts_at=births[card.name],
                requests=requests,
                ends=tuple(end for end in conversation_ends if end.arm == card.name),
                conversations=conversations.get(card.name, ()),
            ),
        )
        for card in folder.manifest.arms
    ]


def _engine_starts_at(history: History, arm: str) -> tuple[float, ...]:
    """Return when the processes of an arm's engine began, as far as its metrics page told."""
    starts = {sample.process_start_at for sample in history.samples(arm)}
    return tuple(sorted(at for at in starts if at is not None))

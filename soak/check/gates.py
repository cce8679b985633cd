"""
What `--fail-on` says of a comparison: the conditions somebody's gate stands on.

Without one, a comparison passes only on positive evidence. With one, whoever gates has said what must not be: then what
is merely inconclusive does not hold the gate up, but nothing measured wrong passes either.
"""

from collections.abc import Sequence

import msgspec

from soak.facts import Comparison, Condition, Gate, holds, seen
from soak.facts.summary import Verdict


def judge_gates(comparison: Comparison, conditions: Sequence[Condition]) -> tuple[Comparison, tuple[Gate, ...]]:
    """
    Return the comparison with the verdict that the conditions give it, and what became of each.

    Without conditions nothing changes. An invalid comparison stays *unknown* whatever they say. Else *fail* if one
    holds, or the comparison found a regression by itself; *unknown* if one looks at what was not measured; else *pass*.
    """
    gates = tuple(_judged(condition, comparison) for condition in conditions)
    if not gates:
        return comparison, ()
    return msgspec.structs.replace(comparison, verdict=_verdict(comparison, gates)), gates


def _judged(condition: Condition, comparison: Comparison) -> Gate:
    clauses = [clause for group in condition.any_of for clause in group]
    values = {".".join(clause.path): seen(clause, comparison) for clause in clauses}
    return Gate(text=condition.text, holds=holds(condition, comparison), seen=values)


def _verdict(comparison: Comparison, gates: Sequence[Gate]) -> Verdict:
    said = {gate.holds for gate in gates}
    if comparison.invalid:
        return "unknown"
    if True in said or comparison.verdict == "fail":
        return "fail"
    return "unknown" if None in said else "pass"

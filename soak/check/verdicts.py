"""Three-valued verdicts: their order, how they merge, and the exit code they become."""

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from soak.facts import Comparison, Summary
from soak.facts.summary import Verdict

_ORDER: dict[Verdict, int] = {"pass": 0, "unknown": 1, "fail": 2}
_EXIT: dict[Verdict, int] = {"pass": 0, "unknown": 3, "fail": 1}


class Opinion(NamedTuple):
    """What one checker says, with the sentences it says it for."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def worse(first: Verdict, second: Verdict) -> Verdict:
    """Return the worse of two verdicts: pass < unknown < fail."""
    return max(first, second, key=_ORDER.__getitem__)


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of all verdicts; *unknown* if there are none, for then nothing was judged."""
    found = list(verdicts)
    return reduce(worse, found) if found else "unknown"


def sorted_reasons(opinions: Iterable[Opinion]) -> list[str]:
    """Return all sentences, those that speak against a pass first, each once, and none that another one begins with."""
    ranked = sorted(opinions, key=lambda opinion: -_ORDER[opinion.verdict])
    reasons = list(dict.fromkeys(reason for opinion in ranked for reason in opinion.reasons))
    return [one for one in reasons if not any(other != one and other.startswith(one) for other in reasons)]


def exit_code_of(result: Summary | Comparison) -> int:
    """Return 0 for pass, 1 for fail, 3 for unknown. (6 and 130, how a live run ended, are for the caller to say.)"""
    return _EXIT[result.verdict]

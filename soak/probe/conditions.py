"""
The conditions of a triage, and in which of them a failure comes less often: pure.

Each condition takes something away from the request or the server as they were. Whether the failure comes less often in
it is told by Fisher's exact test, and there are two questions, each with an error rate of its own. *Is it the engine?*
All conditions that take a part of the engine away are one family, corrected by Holm (Fisher, J. R. Stat. Soc. 98 (1935)
39; Holm, Scand. J. Stat. 6 (1979) 65): the engine is blamed for nothing it did with a chance of at most `ALPHA`. *Is it
the draw?* The low temperature is one test, looked at only once the engine is cleared.

Served anew is no member of the family: nothing is changed in it, so that a healthy server differs in it from "as asked"
by luck alone, and one test more makes the others ask for more. It is a control: a part of the engine is taken away by
another start, and what another start heals by itself tells nothing of that part.

What was not answered says nothing and is not counted. Repeats of a greedy request are no draws: the same answer again
counts once, for all of them would turn together on one rounding.
"""

from collections.abc import Mapping

import msgspec

from soak.facts import Case, Cause, Law, Outcomes, Sampling, TurnClass
from soak.stats import fisher, holm

ALPHA = 0.05
STILL_SHARE = 0.5
"""A condition in which a failure still comes at least half as often did not help."""
STILL_LEAST = 2
"""So many failures a condition must show before it is said that they still come in it."""

COOL_TEMPERATURE = 0.3
"""
Low enough that a token ten times less likely than the likeliest is drawn 10 ** (1 / 0.3), some two thousand times less
often: an unlucky draw does not come about, and yet repeats are draws of their own, which greedy ones are not. Greedy
alone is no control for loops: the likeliest continuation of a healthy model loops by itself (Holtzman et al., The
Curious Case of Neural Text Degeneration, ICLR 2020). The law at a temperature: Ackley, Hinton, Sejnowski, Cogn. Sci. 9
(1985) 147.
"""

AS_ASKED, SALTED, ALONE = "as asked", "salted", "alone"
COOL, GREEDY = f"temperature {COOL_TEMPERATURE}", "temperature 0"
NO_SPECULATION, NO_CACHE, PLAIN_COLD = "no speculation", "no prefix cache", "no speculation, salted"
RESTARTED = "served anew"

SINGLE: Mapping[str, Cause] = {
    SALTED: "engine: cache",
    NO_CACHE: "engine: cache",
    NO_SPECULATION: "engine: speculation",
    ALONE: "engine: other",
}
"""The conditions that take one part of the engine away, and what is blamed where the failure goes with it."""

_ANOTHER_START = (NO_SPECULATION, NO_CACHE, PLAIN_COLD)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a diagnosis starts from; conditions that were not tried are absent, and `untried` says why."""

    case: Case
    failure: TurnClass
    conditions: Mapping[str, Outcomes]
    laws: tuple[Law, ...] = ()
    untried: Mapping[str, str] = {}
    identical: int = 0
    salt_in_prompt: bool = False
    """Whether the salt of the salted repeats stood in the prompt, so that the model read other words too."""


def helping(seen: Seen) -> dict[str, float]:
    """Return the parts of the engine without which the failure comes less often, with Holm-corrected p-values."""
    tried = tested(seen)
    corrected = holm([_p_of(seen, name) for name in tried])
    return {name: p for name, p in zip(tried, corrected, strict=True) if p <= ALPHA and _rarer(seen, name)}


def tested(seen: Seen) -> list[str]:
    """Return the conditions that are tested together: those that take a part of the engine away."""
    return [name for name in (*SINGLE, PLAIN_COLD) if answers(seen, name)]


def blamed(seen: Seen) -> dict[str, float]:
    """Return those of `helping` in which the model read the same words."""
    return {name: p for name, p in helping(seen).items() if not reads_otherwise(seen, name)}


def rarer_in(seen: Seen, name: str) -> float | None:
    """Return the p-value of one condition tested by itself, None where the failure comes no less often in it."""
    if not answers(seen, name) or not answers(seen, AS_ASKED) or not _rarer(seen, name):
        return None
    p = _p_of(seen, name)
    return p if p <= ALPHA else None


def restart_matters(seen: Seen) -> bool:
    """Whether something is blamed that took another start, so that what a mere start does must be known."""
    return any(name in _ANOTHER_START for name in blamed(seen))


def without_restart(found: Mapping[str, float]) -> dict[str, float]:
    """Return what was found on the very server that was asked first."""
    return {name: p for name, p in found.items() if name not in _ANOTHER_START}


def reads_otherwise(seen: Seen, name: str) -> bool:
    """Whether the model reads other words in this condition, so that going away in it does not show the engine."""
    return name in (SALTED, PLAIN_COLD) and seen.salt_in_prompt


def still(seen: Seen, name: str) -> bool:
    """Whether a failure is still there: seen in the condition more than once, and at half its rate as asked or more."""
    if not answers(seen, name) or not answers(seen, AS_ASKED):
        return False
    (failed, asked), (base_failed, base_asked) = counts(seen, name), counts(seen, AS_ASKED)
    return failed >= STILL_LEAST and failed / asked >= STILL_SHARE * base_failed / base_asked


def answers(seen: Seen, name: str) -> int:
    """Return how many answers a condition gave; 0 where it was not tried."""
    return counts(seen, name)[1] if name in seen.conditions else 0


def counts(seen: Seen, name: str) -> tuple[int, int]:
    """Return how many answers failed, and how many there were; no answer is one only where that is the failure."""
    one = seen.conditions[name]
    return failed_as(one, seen.failure), one.asked - (0 if seen.failure == "error" else one.unanswered)


def failed_as(outcomes: Outcomes, failure: TurnClass) -> int:
    """Return how many repeats were of the class that is looked into."""
    return outcomes.classes.get(failure, 0)


def greedy(sampling: Sampling) -> bool:
    """Whether the likeliest token is taken, so that repeats differ by rounding only."""
    return sampling.temperature == 0 or sampling.top_k == 1


def _p_of(seen: Seen, name: str) -> float:
    return fisher(_draws(seen, AS_ASKED), _draws(seen, name)) or 1.0


def _rarer(seen: Seen, name: str) -> bool:
    (failed, asked), (base_failed, base_asked) = _draws(seen, name), _draws(seen, AS_ASKED)
    return failed * base_asked < base_failed * asked


def _draws(seen: Seen, name: str) -> tuple[int, int]:
    """Return the counts as far as they are draws of their own: of greedy repeats each different answer counts once."""
    failed, asked = counts(seen, name)
    distinct = seen.conditions[name].distinct
    if not greedy(seen.case.sampling) or distinct >= asked:
        return failed, asked
    return round(failed * distinct / asked), distinct

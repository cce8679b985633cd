"""
What of a probe is answered already, for its plan: read from the folder, before any server is opened.

A probe that knows beforehand what it will ask counts with `kept_of`. One whose next question hangs on the last answer
is rehearsed (`rehearsed`): carried out with kept answers alone, up to the first question that has none.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from soak.app.probe.benches import ProbeOrder, bench_name
from soak.errors import SoakError
from soak.facts import ProbePlan, Trial, digest_of
from soak.probe import Ask, spoke
from soak.store import read_journal

Key = tuple[str, str, str, int]


class Asking(Protocol):
    """What a probe asks with: a `soak.probe.Asker`, or a rehearsal of one."""

    def ask(self, *asks: Ask) -> tuple[tuple[Trial, ...], ...]:
        """Return the trials of each ask, one ask after the other."""
        ...

    def together(self, asks: Sequence[Ask], in_flight: int) -> tuple[tuple[Trial, ...], ...]:
        """Return the trials of each ask, all at once."""
        ...

    def missing(self, ask: Ask) -> int:
        """Return how many of its repeats are not answered yet."""
        ...


def kept_trials(order: ProbeOrder) -> dict[Key, Trial]:
    """Return what the probe's folder keeps by key, nothing where there is none; raises `RunFolderError` for damage."""
    return {trial.key: trial for trial in read_journal(order.folder / "trials.jsonl", Trial) if spoke(trial)}


def kept_of(order: ProbeOrder, asks: Iterable[tuple[str, Ask]]) -> int:
    """Return how many repeats of asks are answered already, each given with the name of its bench (`bench_name`)."""
    kept = kept_trials(order)
    if not kept:
        return 0
    wanted = {(bench, ask.case.digest, digest_of(ask.change), repeat) for bench, ask in asks for repeat in ask.counted}
    return len(wanted & kept.keys())


def rehearsed(plan: ProbePlan, order: ProbeOrder, act: Callable[[Asking], object]) -> ProbePlan:
    """
    Return the plan with what is answered already of what `act` asks of the target.

    Where everything it asks is kept, the plan is just that: nothing further will be sent, however small a limit is.
    """
    rehearsal = _Rehearsal(bench_name(order.target), kept_trials(order))
    if not rehearsal.trials:
        return plan
    whole = True
    try:
        act(rehearsal)
    except _NotKeptError:
        whole = False
    except SoakError:
        pass  # what it comes to without a server it will come to again
    kept = min(len(rehearsal.told), plan.requests)
    if not whole or not kept:
        return msgspec.structs.replace(plan, kept=kept)
    tokens = plan.output_tokens * kept // plan.requests
    return msgspec.structs.replace(plan, requests=kept, output_tokens=tokens, kept=kept)


class _NotKeptError(Exception):
    """The rehearsal came to a question that nobody answered yet."""


class _Rehearsal:
    """Answers from what is kept alone; `told` are the trials it gave out."""

    def __init__(self, bench: str, trials: dict[Key, Trial]) -> None:
        self._bench = bench
        self.trials = trials
        self.told: set[Key] = set()

    def ask(self, *asks: Ask) -> tuple[tuple[Trial, ...], ...]:
        """As `Asking.ask`."""
        return tuple([self._one(ask) for ask in asks])

    def together(self, asks: Sequence[Ask], in_flight: int) -> tuple[tuple[Trial, ...], ...]:  # noqa: ARG002 - never sent
        """As `Asking.together`."""
        return self.ask(*asks)

    def missing(self, ask: Ask) -> int:
        """As `Asking.missing`."""
        return sum(key not in self.trials for key in self._keys(ask))

    def _one(self, ask: Ask) -> tuple[Trial, ...]:
        keys = self._keys(ask)
        self.told.update(key for key in keys if key in self.trials)
        if self.missing(ask):
            raise _NotKeptError
        return tuple(self.trials[key] for key in keys)

    def _keys(self, ask: Ask) -> list[Key]:
        return [(self._bench, ask.case.digest, digest_of(ask.change), repeat) for repeat in ask.counted]

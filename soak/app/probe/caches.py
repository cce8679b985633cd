"""
`soak probe --cache`: does the prefix cache change what the model says?

    salted   a beginning of the conversation asked twice as it is, and cold
    aba      asked, asked again from the cache, once more after a load on the same prefix
    reprobe  beginnings held in the cache, conversations that branch from all of them at once, then other branches

Each unit has a salt of its own, so that what it finds in the cache is what it put there; a unit that was broken off is
begun again under another, for its cache is gone. Cold answers are shared by all units.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal, get_args

from soak.app.probe.benches import Benches, ProbeOrder, engine_kept
from soak.app.probe.kept import Asking, rehearsed
from soak.app.probe.silence import not_answered
from soak.errors import UsageError
from soak.facts import CacheFound, CacheProbe, Case, Change, ProbePlan, Trial
from soak.probe import Ask, answered, bar_of, beginning, branch, cache_found, floor_of, prefixes_of, probe_of, probing

CacheKind = Literal["salted", "aba", "reprobe"]
CACHE_KINDS: tuple[CacheKind, ...] = get_args(CacheKind)

_COLD = Change(salted=True, same_seed=True)
_AS_ASKED = Change(same_seed=True)
_COLD_REPEATS = 2
_LOAD_BRANCHES = 3
_PROBE_BRANCHES = 2
_MAX_STEPS = 12


@dataclass(frozen=True, kw_only=True)
class CacheOrder:
    """Which probes, over how many beginnings of the conversation, with how many requests of the load at once."""

    kinds: tuple[CacheKind, ...] = CACHE_KINDS
    prefixes: int = 6
    in_flight: int = 8


def plan_caches(case: Case, order: CacheOrder, probing_order: ProbeOrder) -> ProbePlan:
    """Return what the probes will send at most, and what of it is answered already."""
    asked = probing(case)
    beginnings = len(prefixes_of(asked, order.prefixes))
    of_kind = {
        "salted": 2,
        "aba": 3 + _LOAD_BRANCHES,
        "reprobe": 1 + _LOAD_BRANCHES + _PROBE_BRANCHES * (1 + _COLD_REPEATS),
    }
    cold = _COLD_REPEATS * beginnings if {"salted", "aba"} & set(order.kinds) else 0
    units = sum(of_kind[kind] * beginnings for kind in order.kinds)
    confirming = max((of_kind[kind] for kind in order.kinds), default=0) * beginnings
    narrowing = _MAX_STEPS * (2 + _COLD_REPEATS) if "salted" in order.kinds else 0
    requests = cold + units + confirming + narrowing
    plan = ProbePlan(
        probe="cache",
        case=case.name,
        requests=requests,
        output_tokens=requests * asked.sampling.max_tokens,
        servers=("as built",),
    )
    engine = engine_kept(probing_order)
    return rehearsed(plan, probing_order, lambda asking: _Session(asked, order, asking, engine).run())


def probe_caches(case: Case, order: CacheOrder, benches: Benches) -> CacheFound:
    """
    Return what the cache does to answers; raises `UsageError` where the server caches nothing.

    Raises `TargetError` where a probe is not answered: what is not answered shows nothing.
    """
    with benches.open() as bench:
        if bench.side.capabilities.prefix_cache_on is False:
            raise UsageError(
                "there is no cache to probe",
                why=f"{bench.side.given} runs without prefix caching",
                hint="start it with --enable-prefix-caching",
            )
        return _Session(probing(case), order, bench.asker, bench.side.capabilities.engine).run()


class _Session:
    """One bench under all probes."""

    def __init__(self, case: Case, order: CacheOrder, asking: Asking, engine: str | None) -> None:
        self._case = case
        self._order = order
        self._ask = asking
        self._salt_in_prompt = engine != "vllm"
        self._cold: dict[str, tuple[Trial, ...]] = {}
        self._requests = 0

    def run(self) -> CacheFound:
        beginnings = prefixes_of(self._case, self._order.prefixes)
        pairs = [self._pairs(kind, beginnings, 0) for kind in self._order.kinds]
        probes = self._judged([pair for of_kind in pairs for pair in of_kind])
        faults = [probe for probe in probes if probe.verdict == "fault"]
        confirmed = len(faults) == 1 and self._again(faults[0], beginnings)
        if len(faults) > 1 or confirmed:
            probes += self._narrowed(probes)
        cold = list(self._cold.values())
        return cache_found(self._case, probes, cold, confirmed=confirmed, requests=self._requests)

    def _judged(self, pairs: "Sequence[_Pair]") -> list[CacheProbe]:
        bar = bar_of(floor_of(list(self._cold.values()))[0])
        return [probe_of(p.kind, p.case, p.warm.observation, p.cold.observation, bar) for p in pairs]

    def _again(self, fault: CacheProbe, beginnings: Sequence[Case]) -> bool:
        """Whether the one probe that stood out does so again in a unit of its own."""
        kind = next(kind for kind in CACHE_KINDS if kind == fault.kind)
        again = self._judged(self._pairs(kind, beginnings, 1))
        return any(probe.verdict == "fault" and probe.case == fault.case for probe in again)

    def _narrowed(self, probes: Sequence[CacheProbe]) -> list[CacheProbe]:
        """Return the further probes by which the shortest failing beginning was found, by halving."""
        tried: list[CacheProbe] = []
        if "salted" not in self._order.kinds:
            return tried
        ends = [len(one.messages) for one in prefixes_of(self._case, len(self._case.messages))]
        failing = min((p.messages for p in probes if p.verdict == "fault" and p.kind == "salted"), default=None)
        if failing is None:
            return tried
        good = max((p.messages for p in probes if p.verdict != "fault" and p.messages < failing), default=0)
        for _ in range(_MAX_STEPS):
            between = [end for end in ends if good < end < failing]
            if not between:
                break
            middle = between[len(between) // 2]
            (probe,) = self._judged(self._pairs("salted", [beginning(self._case, middle)], 0))
            tried.append(probe)
            good, failing = (good, middle) if probe.verdict == "fault" else (middle, failing)
        return tried

    # -- the three kinds ---------------------------------------------------------------------------------------

    def _pairs(self, kind: CacheKind, beginnings: Sequence[Case], round_: int) -> "list[_Pair]":
        act: dict[CacheKind, Callable[[Sequence[Case], int], list[_Pair]]] = {
            "salted": self._salted,
            "aba": self._aba,
            "reprobe": self._reprobe,
        }
        return act[kind](beginnings, round_)

    def _salted(self, beginnings: Sequence[Case], round_: int) -> "list[_Pair]":
        pairs = []
        for case in beginnings:
            cold = self._cold_of(case)
            (warm,) = self._sent(self._twice(case, round_))
            pairs.append(_Pair("salted", case, warm[1], cold[0]))
        return pairs

    def _twice(self, case: Case, round_: int) -> Ask:
        """
        Return two repeats with nothing changed, both kept or neither: a second one alone may find nothing cached.

        Where a salt stands in the prompt they have one too, so that warm and cold read alike.
        """
        if self._salt_in_prompt:
            unit = self._unit(f"salted {case.name} {round_}", partial(_twice_asks, case))
            return Ask(case=case, change=Change(salt=unit, same_seed=True), repeats=2)
        for first in count(2 * round_, 4):
            ask = Ask(case=case, change=_AS_ASKED, repeats=2, first=first)
            if self._ask.missing(ask) != 1:
                return ask
        raise AssertionError("unused repeats are always found")

    def _aba(self, beginnings: Sequence[Case], round_: int) -> "list[_Pair]":
        load = [branch(case, number) for case in beginnings for number in range(_LOAD_BRANCHES)]
        pairs = []
        for at, case in enumerate(beginnings):
            others = load[at :: len(beginnings)]
            unit = self._unit(f"aba {case.name} {round_}", partial(_aba_asks, case, others))
            cold = self._cold_of(case)
            self._sent(Ask(case=case, change=Change(salt=unit, same_seed=True), repeats=2))
            self._loaded([Ask(case=one, change=Change(salt=unit, same_seed=True)) for one in others])
            (after,) = self._sent(Ask(case=case, change=Change(salt=unit, same_seed=True), first=2))
            pairs.append(_Pair("aba", case, after[0], cold[0]))
        return pairs

    def _reprobe(self, beginnings: Sequence[Case], round_: int) -> "list[_Pair]":
        load = [branch(case, number) for number in range(_LOAD_BRANCHES) for case in beginnings]
        probes = [branch(case, 10 + 7 * number) for case in beginnings for number in range(_PROBE_BRANCHES)]
        unit = self._unit(f"reprobe {round_}", partial(_asks_of, (*beginnings, *load, *probes)))
        change = Change(salt=unit, same_seed=True)
        self._sent(*(Ask(case=one, change=change) for one in beginnings))
        self._loaded([Ask(case=one, change=change) for one in load])
        warm = self._sent(*(Ask(case=one, change=change) for one in probes))
        return [
            _Pair("reprobe", one, trials[0], self._cold_of(one)[0]) for one, trials in zip(probes, warm, strict=True)
        ]

    # -- asking ------------------------------------------------------------------------------------------------

    def _unit(self, name: str, asks: Callable[[str], list[Ask]]) -> str:
        """Return the salt of a unit: one under which all of it is kept, or nothing."""
        for attempt in count():
            salt = f"{name} {attempt}"
            wanted = asks(salt)
            missing = sum(map(self._ask.missing, wanted))
            if missing in (0, sum(ask.repeats for ask in wanted)):
                return salt
        raise AssertionError("an unused salt is always found")

    def _cold_of(self, case: Case) -> tuple[Trial, ...]:
        if case.digest not in self._cold:
            (self._cold[case.digest],) = self._sent(Ask(case=case, change=_COLD, repeats=_COLD_REPEATS))
        return self._cold[case.digest]

    def _sent(self, *asks: Ask) -> tuple[tuple[Trial, ...], ...]:
        self._requests += sum(ask.repeats for ask in asks)
        return _answers(self._ask.ask(*asks))

    def _loaded(self, asks: Sequence[Ask]) -> None:
        self._requests += len(asks)
        self._ask.together(asks, self._order.in_flight)


@dataclass(frozen=True)
class _Pair:
    kind: CacheKind
    case: Case
    warm: Trial
    cold: Trial


def _aba_asks(case: Case, others: Sequence[Case], salt: str) -> list[Ask]:
    return [Ask(case=case, change=Change(salt=salt, same_seed=True), repeats=3), *_asks_of(others, salt)]


def _twice_asks(case: Case, salt: str) -> list[Ask]:
    return [Ask(case=case, change=Change(salt=salt, same_seed=True), repeats=2)]


def _asks_of(cases: Sequence[Case], salt: str) -> list[Ask]:
    return [Ask(case=case, change=Change(salt=salt, same_seed=True)) for case in cases]


def _answers(trials: tuple[tuple[Trial, ...], ...]) -> tuple[tuple[Trial, ...], ...]:
    """Return the trials; raises `TargetError` if one of them was not answered."""
    for trial in (one for of_ask in trials for one in of_ask):
        if not answered(trial.observation):
            raise not_answered("a cache probe was not answered", trial)
    return trials

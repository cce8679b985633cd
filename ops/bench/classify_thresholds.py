"""
What each threshold of the classifier does: `python ops/bench/classify_thresholds.py [FOLDER …] [--json]`.

Every threshold of `soak/classify/settings.py` is set to looser and stricter values, the others left as they are, and
measured on planted faults (tests/unit/classify/planted.py), on answers just above and just below the label policy
(borders.py), on honest documents, on the answers of the bundled corpora, and on those of the folders of transcripts
named; for early stops on the same answers cut short, and beside other answers' records. About three minutes of a core
with the options of the kept run, `--rounds 3 --real 400`.

An answer is judged anew only where a comparison with the threshold comes out differently (class `Watched`); the tests
hold that against judging all of them anew.
"""

import argparse
import json
import operator
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from classify_long import decode, encode, lead_ids
from classify_stops import LEAST_CHARS, Answer, cut_places, read
from unit.classify.borders import borders
from unit.classify.planted import NEAR, SALAD, agent_text, honest, honest_prose, planted, planted_exact
from unit.classify.turns import answer

from soak.classify import DEFAULTS, Context, Settings, TurnJudge, judge
from soak.facts import Chunk, Message, Observation, text_of

SEEDS = {"planted": 51, "borders": 52, "honest": 53, "cuts": 54}
PERIODS = (1, 2, 5, 13, 34, 89, 233, 1024)
LEADS = (300, 4_000, 20_000)
TIMES = (0.5, 0.8, 1.25, 2.0)
# Where multiples make no sense, the neighbours that do.
VALUES: dict[str, tuple[float, ...]] = {
    "open_copies": (2, 3, 5, 8),
    "certain_copies": (2, 3, 5, 8),
    "open_share": (0.0, 0.05, 0.2, 0.4),
    "open_data_share": (0.25, 0.4, 0.6, 0.8),
    "pool_redundancy": (0.6, 0.7, 0.9, 0.95),
    "redundant_share": (0.7, 0.8, 0.9, 0.95),
    "near_match": (0.7, 0.8, 0.9, 0.95),
    "explained_share": (0.2, 0.4, 0.6, 0.9),
    "salad_scripts": (2, 3, 5, 6),
    "salad_switches": (2, 3, 5, 8),
    "salad_window_chars": (200, 800),
    "fragment_pieces": (250, 1000),
    "rare_window_tokens": (64, 256),
    "duplicate_calls": (2, 4, 5, 6),
    "early_points": (1, 2, 4, 5),
    "suspect_points": (1, 3),
    "short_share": (0.1, 0.2, 0.4, 0.6),
    "shorter_share": (0.3, 0.45, 0.75, 0.9),
}
STREAMING = tuple(name for name in asdict(DEFAULTS) if name.startswith("certain_"))
STOPS = ("early_points", "suspect_points", "short_share", "shorter_share")
BOUNDS = ("max_chars", "watched_chars", "watched_tokens")
Compare = Callable[[Any, Any], Any]


class Watched(float):
    """
    A threshold that keeps what it is compared with, to tell which other values would have changed an outcome.

    `times` it stands for in an expression like `2 * threshold`; any other arithmetic is `used`: then nothing is known.
    """

    __slots__ = ("log", "times")
    __array_ufunc__ = None  # arrays leave the comparison to us

    def __new__(cls, value: float, times: float = 1.0, log: dict[Any, None] | None = None) -> "Watched":
        """Return the threshold, with the log of the one it is a multiple of."""
        self = super().__new__(cls, value * times)
        self.times = times
        self.log = {} if log is None else log
        return self

    def changes(self, value: float) -> bool:
        """Whether with this value anything might have come out differently."""
        base = float(self) / self.times
        return None in self.log or any(
            bool(compare(value * times, other)) != bool(compare(base * times, other))
            for compare, times, other in self.log
        )

    def _compared(self, compare: Compare, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            self.log[None] = None
            return compare(float(self), other)
        if isinstance(other, Watched):
            other.log[_MIRRORED[compare], other.times, float(self)] = None
        self.log[compare, self.times, float(other)] = None
        return compare(float(self), float(other))

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    def __eq__(self, other: object) -> bool:
        return bool(self._compared(operator.eq, other))

    def __hash__(self) -> int:
        return hash(float(self))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | float) and not isinstance(other, Watched):
            return Watched(float(self) / self.times, self.times * other, self.log) if other else self._used(0.0)
        return self._used(float(self) * other)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return self._used(float(self) + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._used(float(self) - other)

    def __rsub__(self, other: Any) -> Any:
        return self._used(other - float(self))

    def __truediv__(self, other: Any) -> Any:
        return self._used(float(self) / other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._used(other / float(self))

    def __neg__(self) -> Any:
        return self._used(-float(self))

    def __int__(self) -> int:
        return int(self._used(float(self)))

    def __float__(self) -> float:
        return super().__add__(0.0)

    def _used(self, result: Any) -> Any:
        self.log[None] = None
        return result


_MIRRORED: dict[Compare, Compare] = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
}


class Sample(NamedTuple):
    """An answer with its context, the group it is counted in, and whether the policy calls it garbage."""

    group: str
    kind: str
    observation: Observation
    context: Context
    garbage: bool


def watched() -> Settings:
    """Return the default settings as thresholds that keep what they are compared with; not those of the stream."""
    kept = (*STREAMING, *BOUNDS)
    return replace(DEFAULTS, **{name: Watched(value) for name, value in asdict(DEFAULTS).items() if name not in kept})


def values_of(name: str) -> tuple[float, ...]:
    """Return the values a threshold is set to, the looser or smaller ones first."""
    default = getattr(DEFAULTS, name)
    return VALUES.get(name) or tuple(round(times * default, 6) for times in TIMES)


# -- what is judged ----------------------------------------------------------------------------------------------------


def samples(answers: dict[str, list[Answer]], rounds: int) -> Iterator[Sample]:
    """Yield all answers that a loop or salad may be seen in."""
    yield from planted_samples(random.Random(SEEDS["planted"]), rounds)
    for one in borders(random.Random(SEEDS["borders"]), 5 * rounds):
        observation = answer(one.text, one.finish, tool_calls=one.calls)
        yield Sample("borders", one.kind, observation, one.context, one.garbage)
    for text in excerpts(random.Random(SEEDS["honest"]), 40 * rounds):
        yield Sample("agent text, ended", "excerpts", answer(text, "stop"), Context(), False)
    for name, text in honest(random.Random(SEEDS["honest"]), rounds):
        cut = text[: int(0.8 * len(text))]
        beside = Context(reference=Message(role="assistant", content=text))
        ids = tuple(encode(text))
        yield Sample("documents, ended", name, answer(text, "stop", token_ids=ids), Context(), False)
        yield Sample("documents, cut", name, answer(cut, "length"), Context(), False)
        yield Sample("documents, cut, recorded", name, answer(cut, "length"), beside, False)
    for source, found in answers.items():
        for one in found:
            text = text_of(one.message.content)
            ended = answer(text, "stop", tool_calls=one.message.tool_calls, token_ids=tuple(encode(text)))
            yield Sample(f"{source}, ended", one.episode.id, ended, Context(), False)
            yield Sample(f"{source}, cut", one.episode.id, answer(text, "length"), Context(), False)


def excerpts(rng: random.Random, count: int) -> Iterator[str]:
    """Yield stretches of 8,000 characters of what agents, tools and their instructions say, cut anywhere."""
    text = agent_text()
    for _ in range(count):
        at = rng.randrange(len(text) - 8_000)
        yield text[at : at + 8_000]


def planted_samples(rng: random.Random, rounds: int) -> Iterator[Sample]:
    """Yield the planted faults, each cut by the limit, and ended."""
    for k in range(rounds):
        lead = LEADS[k % 3]
        faults = [planted_exact(rng, period, lead, max(256, 4 * period)) for period in PERIODS]
        faults += [planted(rng, kind, lead, rng.choice([300, 900])) for kind in (*NEAR, *SALAD)]
        for fault in faults:
            kind = "exact" if fault.period else fault.kind
            for finish in ("length", "stop"):
                observation = answer(fault.text, finish, token_ids=tuple(encode(fault.text)))
                yield Sample(f"planted, {finish}", kind, observation, Context(), True)
        for share in (1.0, 0.5):
            before = encode(honest_prose(rng, lead))
            ids = [rng.randrange(256, 100_256) if rng.random() < share else one for one in lead_ids(rng, 600)]
            for finish in ("length", "stop"):
                observation = answer(decode(before + ids), finish, token_ids=tuple(before + ids))
                yield Sample(
                    f"planted, {finish}", f"{round(100 * share)} % random tokens", observation, Context(), True
                )


# -- loops and salad ---------------------------------------------------------------------------------------------------


def sweep_loops(found: list[Sample]) -> dict[str, dict[str, dict[str, dict[str, list[int]]]]]:
    """Return by threshold, value and group, by kind: (called garbage, of how many); and under `default` as it is."""
    names = [name for name in asdict(DEFAULTS) if name not in (*STREAMING, *STOPS, *BOUNDS)]
    counts: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: [0, 0]))))
    for sample in found:
        settings = watched()
        before = verdict(sample, settings)
        _count(counts["default"]["default"], sample, before)
        for name in names:
            threshold = getattr(settings, name)
            for value in values_of(name):
                other = replace(DEFAULTS, **{name: value})
                now = verdict(sample, other) if threshold.changes(value) else before
                _count(counts[name][str(value)], sample, now)
    return json.loads(json.dumps(counts))


def verdict(sample: Sample, settings: Settings) -> bool:
    """Return whether the answer is called garbage."""
    return judge(sample.observation, sample.context, settings).class_ == "garbage_loop"


def _count(counts: Any, sample: Sample, called: bool) -> None:
    group = sample.group if sample.group != "borders" else "over" if sample.garbage else "under"
    cell = counts[group][sample.kind if sample.garbage or group == "under" else "all"]
    cell[0] += called
    cell[1] += 1


# -- early stops -------------------------------------------------------------------------------------------------------


def sweep_stops(answers: dict[str, list[Answer]]) -> dict[str, dict[str, dict[str, list[int]]]]:
    """Return by threshold and value: early stops seen, and suspects, among cut answers; and false ones."""
    counts: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: [0, 0])))
    for observation, context, group in stop_samples(answers):
        settings = watched()
        before = stop_verdict(observation, context, settings)
        _count_stop(counts["default"]["default"], group, before)
        for name in STOPS:
            for value in values_of(name):
                other = replace(DEFAULTS, **{name: value})
                differs = getattr(settings, name).changes(value)
                _count_stop(
                    counts[name][str(value)], group, stop_verdict(observation, context, other) if differs else before
                )
    return json.loads(json.dumps(counts))


def stop_verdict(observation: Observation, context: Context, settings: Settings) -> dict[str, bool]:
    """Return whether the answer is called early, and whether it is only noted as suspect."""
    judgement = judge(observation, context, settings)
    suspect = any(finding.kind == "suspect_stop" for finding in judgement.findings)
    return {"early": judgement.class_ == "early_stop", "suspect": suspect}


def stop_samples(answers: dict[str, list[Answer]]) -> Iterator[tuple[Observation, Context, str]]:
    """Yield answers cut at random, whole ones, and whole ones beside the record of another turn of their source."""
    rng = random.Random(SEEDS["cuts"])
    for source, found in answers.items():
        for one in found:
            text = text_of(one.message.content)
            whole = answer(text, "stop", tool_calls=one.message.tool_calls, tokens=len(encode(text)))
            yield whole, beside(one, one), f"{source}: whole"
            yield whole, beside(one, rng.choice(found)), f"{source}: beside another record"
            if len(text) >= LEAST_CHARS:
                at = next((at for at in cut_places(rng, text) if text[:at].strip()), None)
                if at is not None:
                    yield (
                        answer(text[:at], "stop", tokens=len(encode(text[:at]))),
                        beside(one, one),
                        f"{source}: cut short",
                    )


def beside(one: Answer, record: Answer) -> Context:
    """Return the context of an answer beside a record."""
    tokens = len(encode(text_of(record.message.content)))
    return Context(
        prompt_text=one.prompt, tools=one.episode.tools, reference=record.message, reference_tokens=tokens,
        tool_mode="native" if any(node.message.tool_calls for node in one.episode.nodes) else "text",
    )  # fmt: skip


def _count_stop(counts: Any, group: str, said: dict[str, bool]) -> None:
    for name, hit in said.items():
        cell = counts[f"{group}, {name}"]
        cell[0] += hit
        cell[1] += 1


# -- while it streams --------------------------------------------------------------------------------------------------


def sweep_streaming(rounds: int) -> dict[str, dict[str, Any]]:
    """Return by threshold and value: loops signalled of how many and the median delay; false signals of how many."""
    settings = {"default": {"default": DEFAULTS}} | {
        name: {str(value): replace(DEFAULTS, **{name: value}) for value in values_of(name)} for name in STREAMING
    }
    return {name: {value: streamed(one, rounds) for value, one in by.items()} for name, by in settings.items()}


def streamed(settings: Settings, rounds: int) -> dict[str, Any]:
    """Return what is signalled of loops that go on for 3,000 words and more, and of honest documents."""
    rng = random.Random(SEEDS["planted"])
    delays: list[int | None] = []
    for k in range(rounds):
        faults = [planted_exact(rng, period, LEADS[k % 2], max(3000, 8 * period)) for period in PERIODS]
        faults += [planted(rng, kind, LEADS[k % 2], 3000) for kind in NEAR if kind not in ("markers", "flood")]
        delays += [signalled_at(fault.text, fault.onset, settings) for fault in faults]
    documents = [signalled_at(text, 0, settings) for _, text in honest(random.Random(SEEDS["honest"]), rounds)]
    seen = sorted(delay for delay in delays if delay is not None)
    return {
        "signalled": [len(seen), len(delays)],
        "delay_chars": seen[len(seen) // 2] if seen else None,
        "false": [sum(delay is not None for delay in documents), len(documents)],
    }


def signalled_at(text: str, onset: int, settings: Settings) -> int | None:
    """Return how many characters after `onset` the first signal came, None if none came."""
    turn = TurnJudge(Context(), settings)
    for at in range(0, len(text), 64):
        if turn.push(Chunk(content=text[at : at + 64])) is not None:
            return at + 64 - onset
    return None


def main() -> None:
    """Run all and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of transcripts, beside the bundled corpora")
    parser.add_argument("--rounds", type=int, default=6, help="answers of each made-up kind (default: 6)")
    parser.add_argument(
        "--real", type=int, default=1_000, help="answers of the folders, drawn at random (default: 1000)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    answers = {"bundled": read([])}
    if options.folders:
        found = read(options.folders)
        answers["real"] = random.Random(SEEDS["cuts"]).sample(found, min(options.real, len(found)))
    result = {
        "rounds": options.rounds,
        "seeds": SEEDS,
        "defaults": asdict(DEFAULTS),
        "bounds": BOUNDS,
        "loops": sweep_loops(list(samples(answers, options.rounds))),
        "stops": sweep_stops(answers),
        "streaming": sweep_streaming(max(1, options.rounds // 3)),
    }
    print(json.dumps(result, indent=None if options.json else 1))


if __name__ == "__main__":
    main()

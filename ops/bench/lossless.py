"""
Does the losslessness test keep its word? Tokens drawn with planted faults from a model's own distributions; seeded.

    python ops/bench/lossless.py [--scale 1.0] [--only null …] [--settings issue …] [--pool FILE] [--sharpen 1.8]
                                 [--out ops/bench/results/lossless.json]
    python ops/bench/lossless.py --page check|write      the tables of soak/stats/lossless/README.md

The pool holds real next-token distributions: a numpy archive made by `ops/bench/lossless/from_model.py` (what it holds
is said there; the one kept is SmolLM2-135M over agent conversations), or a file of scores (`soak.rescoring/1`): its
lists and, for what they leave out, a straight line through log p against log rank, scaled to the mass left. `--sharpen`
multiplies all logits: 1.8 brings the small model to the mean entropy of a large one (0.8 nats); 1 leaves it as it is.

How a token is drawn: a place of the pool; the target's logits there are the reference's plus noise of N(0, σ²) for each
token (σ = 0.05 unless said otherwise: what number formats and kernels do); temperature, top_k, top_p; the fault. The
draft model's logits are the target's plus N(0, 1.5²). A fault with a share happens to each token by itself, unless it
says "once in every" so many. For each case 48,000 healthy and 48,000 faulty tokens are drawn and scored once by soak's
own code; runs are drawn from them with replacement, mixed as the fault's share says, and judged. A run of each
length is looked at once, and detection is at the first of the lengths at which it deviates.
"""

import argparse
import json
import math
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from soak.facts import RescoredOutput, RescoringCard, SamplingLaw, TurnKey
from soak.facts.rescoring import from_lines
from soak.stats.lossless import Bars
from soak.stats.lossless.arms import read_arm
from soak.stats.lossless.control import contrast
from soak.stats.lossless.evidence import Rates
from soak.stats.lossless.judging import verdict_of
from soak.stats.lossless.scores import Scores, joined
from soak.stats.lossless.testing import contrast_test, evidence_of, tests_of

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "soak" / "stats" / "lossless" / "README.md"
LENGTHS = (100, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000)
SHOWN = (1000, 3000, 10_000, 30_000)
BANK = 48_000
DRAFT = 1.5
NOISE = 0.05
BARS = Bars()


class Pool(NamedTuple):
    """
    Distributions of n places: log p of the listed tokens (n × k), of the tail's bins (n × b) with `sizes` tokens each.

    `ranks` (n × 20) is where the most probable tokens of the place before stand here; `follows` whether that is known.
    """

    top: np.ndarray
    tail: np.ndarray
    sizes: np.ndarray
    ranks: np.ndarray
    follows: np.ndarray
    vocabulary: int
    about: str


class Setting(NamedTuple):
    """How tokens are sampled, and how many log probabilities the reference gives."""

    name: str
    law: SamplingLaw
    width: int


SETTINGS = {
    "issue": Setting("T 1, top_p 0.95, k = 20", SamplingLaw(top_p=0.95), 20),
    "wide": Setting("T 1, top_p 0.95, k = 64", SamplingLaw(top_p=0.95), 64),
    "cool": Setting("T 0.7, top_p 0.9, top_k 40, k = 64", SamplingLaw(temperature=0.7, top_p=0.9, top_k=40), 64),
    "narrow": Setting("T 0.7, top_p 0.9, top_k 40, k = 20", SamplingLaw(temperature=0.7, top_p=0.9, top_k=40), 20),
    "whole": Setting("T 1, top_p 1, k = 20", SamplingLaw(), 20),
    "greedy": Setting("T 0, k = 20", SamplingLaw(temperature=0.0), 20),
}


# The pool


def load_pool(path: Path, sharpen: float) -> Pool:
    """Return the pool in `path`, its logits multiplied by `sharpen`."""
    if path.suffix == ".npz":
        kept = dict(np.load(path))
        about = json.loads(str(kept["about"]))
        top, tail = kept["top"].astype(float), kept["tail"].astype(float)
        follows = np.arange(len(top)) % about["stretch"] > 0
        ranks, vocabulary = kept["ranks"].astype(int), about["vocabulary"]
        text = f"{about['model']} ({about['licence']}), {len(top):,} places of the corpus {about['corpus']}"
    else:
        top, tail, ranks, follows, vocabulary, text = pool_of_scores(path)
    sizes = np.diff([*tail_edges(top.shape[1], vocabulary), vocabulary])
    top, tail = top * sharpen, tail * sharpen
    norm = np.log(np.exp(top).sum(axis=1) + (np.exp(tail) * sizes).sum(axis=1))[:, None]
    return Pool(top - norm, tail - norm, sizes, ranks, follows, vocabulary, f"{text}, logits × {sharpen:g}")


def pool_of_scores(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, str]:
    """Return lists, extrapolated tails and the ranks of the place before, from a file of scores."""
    with path.open("rb") as lines:
        card, outputs = from_lines(lines, path.name)
        tables = [output for output in outputs if output.tokens > 1]
    parts = [
        (
            np.frombuffer(output.top_logprobs, "<f4").astype(float).reshape(-1, output.width),
            np.frombuffer(output.top_ids, "<u4").reshape(-1, output.width),
        )
        for output in tables
    ]
    top = np.concatenate([row for row, _ in parts])
    ranks = np.concatenate([ranks_before(ids) for _, ids in parts])
    follows = np.concatenate([np.arange(len(ids)) > 0 for _, ids in parts])
    tail = np.stack([tail_of(row, card.vocabulary) for row in top])
    return top, tail, ranks, follows, card.vocabulary, f"{card.model}, {len(top):,} places of {path.name}"


def ranks_before(ids: np.ndarray) -> np.ndarray:
    """Return where the 20 most probable tokens of the place before stand; outside the list, at its end."""
    before = np.roll(ids[:, :20], 1, axis=0)
    hits = ids[:, None, :] == before[:, :, None]
    return np.where(hits.any(axis=2), hits.argmax(axis=2), ids.shape[1])


def tail_edges(width: int, vocabulary: int) -> list[int]:
    """Return the first rank of each bin of the tail: each twice as wide as the one before."""
    return [width * 2**j for j in range(24) if width * 2**j < vocabulary]


def tail_of(top: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return log p in each bin: log p falls along log rank as over the list's second half, scaled to the mass left."""
    width = len(top)
    edges = np.array([*tail_edges(width, vocabulary), vocabulary])
    half = np.arange(width // 2, width)
    slope = min(float(np.polyfit(np.log(half + 1), np.maximum(top[half], -40), 1)[0]), -1.0)
    logs = slope * np.log(np.sqrt(edges[:-1] * edges[1:]))
    left = max(1 - float(np.exp(top).sum()), 1e-12)
    return logs + math.log(left) - math.log(float((np.exp(logs) * np.diff(edges)).sum()))


# Laws: cell masses of n places, listed tokens first, then the tail's bins


def target_of(pool: Pool, noise: float, random: np.random.Generator) -> np.ndarray:
    """Return log p of a target whose logits differ from the reference's by N(0, noise²) for each token."""
    top = pool.top + random.normal(0, 1, pool.top.shape) * noise
    logs = np.concatenate([top, pool.tail + noise**2 / 2], axis=1)  # the mean of many lognormal factors
    return logs - np.log((np.exp(logs) * cells(pool)).sum(axis=1))[:, None]


def cells(pool: Pool) -> np.ndarray:
    """Return how many tokens each cell holds."""
    return np.concatenate([np.ones(pool.top.shape[1]), pool.sizes])


def truncated(pool: Pool, logs: np.ndarray, law: SamplingLaw) -> np.ndarray:
    """Return the masses drawn by: a bin of the tail in which the nucleus ends is taken in part."""
    mass = np.exp(logs / law.temperature) * cells(pool)
    order = np.argsort(-logs, axis=1)
    ranked = np.take_along_axis(mass, order, axis=1)
    if law.top_k:
        ranked[:, law.top_k :] = 0
    ranked /= ranked.sum(axis=1, keepdims=True)
    if law.top_p < 1:
        before = np.cumsum(ranked, axis=1) - ranked
        single = cells(pool)[order] == 1
        ranked = np.where(before >= law.top_p, 0, np.where(single, ranked, np.minimum(ranked, law.top_p - before)))
    out = np.zeros_like(mass)
    np.put_along_axis(out, order, ranked / ranked.sum(axis=1, keepdims=True), axis=1)
    return out


def drawn(masses: np.ndarray, places: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a cell for each place."""
    sums = np.cumsum(masses, axis=1)
    sums /= sums[:, -1:]
    return (sums[places] < random.random(len(places))[:, None]).sum(axis=1)


# Faults: what is drawn instead, and how often


class Draw(NamedTuple):
    """What a fault works with: the target's truncated law is `masses`; the draft's `draft`; one-hot drafts `first`."""

    pool: Pool
    setting: Setting
    logs: np.ndarray
    masses: np.ndarray
    draft: np.ndarray
    first: np.ndarray
    places: np.ndarray
    random: np.random.Generator


class Fault(NamedTuple):
    """
    Which share of the tokens is drawn wrongly, and how: `draw` returns a cell for each place.

    Each token by itself; where `every` is given, one token of each so many.
    """

    share: float
    draw: Callable[[Draw], np.ndarray]
    every: int = 0


def healthy(d: Draw) -> np.ndarray:
    """Draw what the target should."""
    return drawn(d.masses, d.places, d.random)


def even(d: Draw) -> np.ndarray:
    """Draw evenly from the vocabulary."""
    size = cells(d.pool)
    return np.searchsorted(np.cumsum(size), d.random.random(len(d.places)) * size.sum(), side="right")


def before(d: Draw) -> np.ndarray:
    """Draw from the law of the place before (its 20 most probable tokens); where none is known, as one should."""
    known = d.pool.ranks.shape[1]
    rank = drawn(d.masses[:, :known], d.places - 1, d.random)
    there = d.pool.ranks[d.places, np.minimum(rank, known - 1)]
    cell = np.searchsorted(np.cumsum(cells(d.pool)), there, side="right")
    return np.where(d.pool.follows[d.places], cell, healthy(d))


def changed(temperature: float = 1.0, top_p: float | None = None) -> Callable[[Draw], np.ndarray]:
    """Draw at so many times the temperature, or with another top_p."""

    def draw(d: Draw) -> np.ndarray:
        law = d.setting.law
        other = SamplingLaw(temperature=law.temperature * temperature, top_p=top_p or law.top_p, top_k=law.top_k)
        return drawn(truncated(d.pool, d.logs, other), d.places, d.random)

    return draw


def lenient(d: Draw) -> np.ndarray:
    """Take a one-hot draft wherever the target gives it 0.3."""
    return np.where(d.masses[d.places, d.first[d.places]] >= 0.3, d.first[d.places], healthy(d))


def from_draft(d: Draw) -> np.ndarray:
    """Take a sampled draft unchecked."""
    return drawn(d.draft, d.places, d.random)


def one_hot(d: Draw) -> np.ndarray:
    """Take a one-hot draft unchecked."""
    return d.first[d.places]


def resampled(d: Draw) -> np.ndarray:
    """Draw from the whole law after a rejected draft, instead of from what is left of it."""
    common = np.minimum(d.masses, d.draft)
    return drawn(common + (1 - common.sum(axis=1, keepdims=True)) * d.masses, d.places, d.random)


NONE = Fault(0.0, healthy)
FAULTS = {
    "(a) wrong token, once in every 1,000": Fault(0.001, even, 1000),
    "(b) law of the place before, once in every 1,000": Fault(0.001, before, 1000),
    "(a) each token by itself, 1 in 1,000": Fault(0.001, even),
    "(b) each token by itself, 1 in 1,000": Fault(0.001, before),
    "(c) top_p ignored": Fault(1, changed(top_p=1.0)),
    "(d) temperature 1.1 times as high": Fault(1, changed(temperature=1.1)),
    "(d) temperature 0.9 times as high": Fault(1, changed(temperature=0.9)),
    "(e) one-hot draft taken where p ≥ 0.3": Fault(1, lenient),
    "(f) sampled draft unchecked, 20 %": Fault(0.2, from_draft),
    "(f) sampled draft unchecked, 5 %": Fault(0.05, from_draft),
    "(g) one-hot draft unchecked, 20 %": Fault(0.2, one_hot),
    "one-hot draft unchecked, 5 %": Fault(0.05, one_hot),
    "one-hot draft unchecked, 1 %": Fault(0.01, one_hot),
    "residual bug: resampled from p": Fault(1, resampled),
    "wrong token, 1 in 10,000": Fault(0.0001, even),
}


# From cells to rows


def bank(pool: Pool, setting: Setting, noise: float, draw: Callable[[Draw], np.ndarray], name: str) -> Scores:
    """Return the rows of tokens all drawn in one way: each place once in a round, each round with noise of its own."""
    random = np.random.default_rng(zlib.crc32(f"{setting.name} {name} {noise}".encode()))
    places = np.arange(len(pool.top))
    rounds = [one_round(pool, setting, noise, draw, places, random) for _ in range(math.ceil(BANK / len(places)))]
    return rows_of(pool, setting, np.tile(places, len(rounds)), np.concatenate(rounds), random)


def one_round(
    pool: Pool,
    setting: Setting,
    noise: float,
    draw: Callable[[Draw], np.ndarray],
    places: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the cell drawn at each place."""
    logs = target_of(pool, noise, random)
    draft = logs + np.where(cells(pool) == 1, random.normal(0, DRAFT, logs.shape), DRAFT**2 / 2)
    first = draft[:, : pool.top.shape[1]].argmax(axis=1)
    law = setting.law
    laws = [greedy(side) if law.temperature == 0 else truncated(pool, side, law) for side in (logs, draft)]
    return draw(Draw(pool, setting, logs, *laws, first, places, random))


def greedy(logs: np.ndarray) -> np.ndarray:
    """Return all mass on the most probable cell."""
    return (np.arange(logs.shape[1]) == logs.argmax(axis=1)[:, None]).astype(float)


def rows_of(pool: Pool, setting: Setting, places: np.ndarray, cell: np.ndarray, random: np.random.Generator) -> Scores:
    """Return the rows soak makes of these tokens; a token's id is its rank."""
    k = pool.top.shape[1]
    low = np.concatenate([np.arange(k), np.cumsum([k, *pool.sizes[:-1]])])
    rank = low[cell] + (random.random(len(cell)) * cells(pool)[cell]).astype(int)
    logprob = np.concatenate([pool.top, pool.tail], axis=1)[places, cell]
    width = setting.width
    output = RescoredOutput(
        key=TurnKey(episode="drawn", turn=0, pass_=0, arm="candidate"),
        law=setting.law,
        prompt_tokens=0,
        width=width,
        token_ids=rank.astype("<u4").tobytes(),
        logprobs=logprob.astype("<f4").tobytes(),
        ranks=rank.astype("<u4").tobytes(),
        top_ids=np.broadcast_to(np.arange(width, dtype="<u4"), (len(places), width)).tobytes(),
        top_logprobs=pool.top[places, :width].astype("<f4").tobytes(),
    )
    card = RescoringCard(
        model="pool", role="candidate", sampled_by="drawn", scored_by="pool", vocabulary=pool.vocabulary, synthetic=True
    )
    scores = read_arm(card, [output], BARS).scores
    assert scores is not None
    return scores


# Runs


def run_of(sides: Scores, healthy_rows: int, fault: Fault, size: int, random: np.random.Generator) -> Scores:
    """Return a run of so many tokens: the faulty ones from the rows of `sides` after the healthy ones."""
    which = random.random(size) < fault.share
    if fault.every:
        which = np.zeros(size, dtype=bool)
        which[np.arange(0, size, fault.every) + random.integers(0, fault.every, size // fault.every)] = True
    rows = random.integers(0, healthy_rows, size) + np.where(which, healthy_rows, 0)
    return Scores(*(column[rows] for column in sides))


Detection = tuple[list[bool], list[str]]


def detection(run: Scores, lengths: Sequence[int] = LENGTHS) -> Detection:
    """Return at which lengths a run deviates, looked at once at each, and the tests that say so at the longest."""
    rates = Rates(BARS.outside_rate, BARS.impossible_rate)
    logs = evidence_of(run, rates, BARS)
    alarms, names = [], []
    for length in lengths:
        part = Scores(*(column[:length] for column in run))
        tests = tests_of(part, {name: log_e[:length] for name, log_e in logs.items()}, rates, BARS)
        alarms.append(verdict_of(part, tests, BARS) == "deviates")
        names = [test.name for test in tests if test.alarms]
    return alarms, names


def measured(
    pool: Pool, setting: Setting, healthy_rows: Scores, fault: Fault, noise: float, name: str, runs: int
) -> dict[str, Any]:
    """Return the figures of one case."""
    rows = healthy_rows if fault is NONE else bank(pool, setting, noise, fault.draw, name)
    random = np.random.default_rng(zlib.crc32(f"runs {setting.name} {name} {noise}".encode()))
    sides = joined([healthy_rows, rows])
    found = [detection(run_of(sides, len(rows.output), fault, LENGTHS[-1], random)) for _ in range(runs)]

    def mean(column: str) -> float:
        one, two = (float(getattr(side, column).mean()) for side in (healthy_rows, rows))
        return (1 - fault.share) * one + fault.share * two

    return {
        "setting": setting.name,
        "case": name,
        "noise": noise,
        "runs": runs,
        **curve(found),
        "outside_per_100k": round(1e5 * mean("outside"), 1),
        "impossible_per_100k": round(1e5 * mean("impossible"), 1),
        "mean_shift": round(mean("shift"), 4),
        "testable": round(float((healthy_rows.steady | ~healthy_rows.drawn).mean()), 4),
    }


def curve(found: Sequence[Detection], lengths: Sequence[int] = LENGTHS) -> dict[str, Any]:
    """Return the share of runs that deviate at the lengths shown, and by which length half and 90 % of them do."""
    alarms = np.array([flags for flags, _ in found])
    first = np.where(alarms.any(axis=1), alarms.argmax(axis=1), len(lengths))
    names = [test for _, tests in found for test in tests]
    return {
        "deviates": {
            str(length): round(float(alarms[:, lengths.index(length)].mean()), 4)
            for length in SHOWN
            if length in lengths
        },
        "ever": round(float(alarms.any(axis=1).mean()), 4),
        "median_tokens": reached(first, 0.5, lengths),
        "tokens_90": reached(first, 0.9, lengths),
        "tests": {test: round(names.count(test) / len(found), 3) for test in sorted(set(names))},
    }


def reached(first: np.ndarray, share: float, lengths: Sequence[int]) -> int | None:
    """Return the length by which a share of the runs was detected; None if fewer ever were."""
    index = int(np.sort(first)[math.ceil(share * len(first)) - 1])
    return lengths[index] if index < len(lengths) else None


# Simulations


def null(pool: Pool, scale: float, settings: list[str]) -> Iterator[dict[str, Any]]:
    """Healthy servers with noise: how often a run deviates."""
    for setting in (SETTINGS[name] for name in settings):
        for noise in (0.0, NOISE, 0.1, 0.2):
            rows = bank(pool, setting, noise, healthy, "healthy")
            yield measured(pool, setting, rows, NONE, noise, "healthy", runs_of(scale))


def faults(pool: Pool, scale: float, settings: list[str]) -> Iterator[dict[str, Any]]:
    """Planted faults: tokens to detection."""
    for setting in (SETTINGS[name] for name in settings):
        rows = bank(pool, setting, NOISE, healthy, "healthy")
        for name, fault in FAULTS.items():
            if possible(setting, name):
                yield measured(pool, setting, rows, fault, NOISE, name, runs_of(scale))


def runs_of(scale: float) -> int:
    """Return how many runs are drawn of each case."""
    return max(10, int(100 * scale))


def possible(setting: Setting, name: str) -> bool:
    """Return whether the fault is planted under the setting: all under the first, the lettered under most."""
    if setting.law.temperature == 0:
        return FAULTS[name].draw in (even, before)
    if setting.law.top_p >= 1 and "top_p" in name:
        return False
    return setting is SETTINGS["issue"] or (name.startswith("(") and setting is not SETTINGS["narrow"])


def controlled(pool: Pool, scale: float, settings: list[str]) -> Iterator[dict[str, Any]]:
    """The test against a control of the same size, in conversations of 400 tokens that only one arm ran."""
    names = ("(g) one-hot draft unchecked, 20 %", "one-hot draft unchecked, 5 %", "residual bug: resampled from p")
    cases = [("healthy", NONE, noise) for noise in (NOISE, 0.2)] + [(name, FAULTS[name], NOISE) for name in names]
    for name, fault, noise in cases if "issue" in settings else []:
        yield _controlled(pool, name, fault, noise, max(10, int(40 * scale)))


def _controlled(pool: Pool, name: str, fault: Fault, noise: float, runs: int) -> dict[str, Any]:
    setting, random = SETTINGS["issue"], np.random.default_rng(zlib.crc32(f"control {name} {noise}".encode()))
    plain, ours = (bank(pool, setting, level, healthy, "healthy") for level in (NOISE, noise))
    sides = joined([ours, bank(pool, setting, noise, fault.draw, name)])
    shares = {}
    for size in (10_000, 30_000):
        owner = np.arange(size) // 400
        names = [[f"{arm}{number}" for number in range(int(owner[-1]) + 1)] for arm in "ab"]
        alarms = 0
        for draw in range(runs):
            first = run_of(sides, len(plain.output), fault, size, random)._replace(output=owner)
            second = run_of(plain, len(plain.output), NONE, size, random)._replace(output=owner)
            alarms += contrast_test(contrast(first, second, (names[0], names[1]), BARS, seed=draw), BARS).alarms
        shares[str(size)] = round(alarms / runs, 3)
    return {"case": name, "noise": noise, "control_noise": NOISE, "runs": runs, "deviates": shares}


SIMULATIONS: dict[str, Callable[[Pool, float, list[str]], Iterator[dict[str, Any]]]] = {
    "null": null,
    "faults": faults,
    "controlled": controlled,
}


# The page


def tables(found: dict[str, Any]) -> str:
    """Return the tables of the page."""
    parts = [
        f"Drawn from: {found['pool']}; {found['entropy']}.",
        "**Healthy: share of runs that deviate**",
        _null(found["null"]),
    ]
    for setting in dict.fromkeys(row["setting"] for row in found["faults"]):
        rows = [row for row in found["faults"] if row["setting"] == setting]
        parts += [f"**{setting}**", _faults(rows)]
    parts += ["**Against a control of the same size** (T 1, top_p 0.95, k = 20)", _control(found["controlled"])]
    return "\n\n".join(parts)


def _null(rows: list[dict[str, Any]]) -> str:
    settings = dict.fromkeys(row["setting"] for row in rows)
    noises = sorted({row["noise"] for row in rows})
    body = [
        [
            setting,
            *(_shares(row) for noise in noises for row in rows if (row["setting"], row["noise"]) == (setting, noise)),
            f"{min(row['testable'] for row in rows if row['setting'] == setting):.0%}",
        ]
        for setting in settings
    ]
    head = ["sampling", *(f"σ {noise:g}: 1k / 3k / 10k / 30k" for noise in noises), "places testable"]
    return table(head, body)


def _shares(row: dict[str, Any]) -> str:
    return " / ".join(f"{row['deviates'][str(length)]:.2g}" for length in SHOWN)


def _faults(rows: list[dict[str, Any]]) -> str:
    body = [
        [
            row["case"],
            *(f"{row['deviates'][str(length)]:.2f}" for length in SHOWN),
            tokens_text(row["median_tokens"]),
            tokens_text(row["tokens_90"]),
            f"{row['mean_shift']:+.3f}",
            f"{row['impossible_per_100k']:g} / {row['outside_per_100k']:g}",
            ", ".join(f"{name} {share:.2f}" for name, share in row["tests"].items()) or "–",
        ]
        for row in rows
    ]
    head = [
        "fault", "1k", "3k", "10k", "30k", "median tokens", "90 %", "mean shift",
        "impossible / outside per 100k", "tests at 30k",
    ]  # fmt: skip
    return table(head, body)


def _control(rows: list[dict[str, Any]]) -> str:
    body = [
        [
            row["case"],
            f"{row['noise']:g} / {row['control_noise']:g}",
            *(f"{share:.2f}" for share in row["deviates"].values()),
        ]
        for row in rows
    ]
    return table(["case", "σ: candidate / control", "10k", "30k"], body)


def tokens_text(value: int | None, most: int = LENGTHS[-1]) -> str:
    """Return tokens to detection as a person reads them; None: more than there were."""
    return f"> {most:,}" if value is None else f"{value:,}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(mark: str, content: str, what: str, command: str) -> None:
    """Write a section's content into the page, or exit with 1 if it says something else."""
    text = PAGE.read_text("utf-8")
    marks = rf"(?s)(<!-- {mark} -->\n).*?(\n<!-- end -->)"
    wanted = re.sub(marks, lambda match: match[1] + content + match[2], text)
    if what == "write":
        PAGE.write_text(wanted, "utf-8")
    elif wanted != text:
        sys.exit(f"{PAGE.name} is not what the results say: {command} --page write")


def entropy_of(pool: Pool) -> str:
    """Return how open the pool's places are, in words."""
    logs = np.concatenate([pool.top, pool.tail], axis=1)
    entropy = -(np.exp(logs) * logs * cells(pool)).sum(axis=1)
    sure = float((pool.top[:, 0] > math.log(0.99)).mean())
    middle = float(np.median(entropy))
    return f"entropy {entropy.mean():.2f} nats in the mean, {middle:.2f} in the median, {sure:.0%} with p > 0.99"


def key_of(row: dict[str, Any]) -> tuple[str, str, float]:
    """Return what a row is the result of: a later run replaces it."""
    return row.get("setting", ""), row["case"], row["noise"]


def main() -> None:
    """Run the simulations and write the figures, or the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--pool", type=Path, default=HERE / "lossless" / "pool.npz")
    parser.add_argument("--sharpen", type=float, default=1.8)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "lossless.json")
    parser.add_argument("--only", nargs="*", default=list(SIMULATIONS), choices=list(SIMULATIONS))
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--page", choices=("check", "write"))
    args = parser.parse_args()
    found: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.page:
        page("tables", tables(found), args.page, "python ops/bench/lossless.py")
        return
    pool = load_pool(args.pool, args.sharpen)
    found |= {"pool": pool.about, "entropy": entropy_of(pool)}
    for name in args.only:
        began = time.process_time()
        for row in SIMULATIONS[name](pool, args.scale, args.settings):
            kept = {key_of(old): old for old in found.get(name, [])}
            found[name] = list((kept | {key_of(row): row}).values())
            args.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {time.process_time() - began:.0f} s CPU", flush=True)


if __name__ == "__main__":
    main()

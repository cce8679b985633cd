"""
Do the statistics keep their word? Simulations of false alarms, coverage, power and time to a decision; all seeded.

    python ops/bench/stats.py [--scale 1.0] [--only alike …] [--out ops/bench/results/stats.json]

Conversations have 30 turns, one episode each. Four models of how failures hang together, all with the same rate:

  independent  every turn by itself
  shared       a conversation's rate is beta-distributed with an intra-cluster correlation of 0.3, alike in both arms
  own          the same, drawn for each arm by itself: an arm goes wrong for a whole conversation
  episodes     a failing turn is followed by another with 80 %, in each arm by itself

`--scale` multiplies the number of simulated runs (each result tells its own); `--only` renews some results and keeps
the others. Monte Carlo errors (one standard error) stand beside each share.
"""

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from soak.check import Allowed, Decider
from soak.facts import Decide, Judgement, Record, TurnKey
from soak.stats import (
    DifferenceMeter,
    Interval,
    PairedEvents,
    by_cluster,
    cluster_difference,
    cluster_differences,
    cluster_ratio,
    clustering_factor,
    count_pairs,
    envelope,
    event_trend,
    log_evidence,
    mcnemar_exact,
    newcombe_paired,
    pair_rates,
    paired_test,
    power_paired,
    quantile_limits,
    ratio_score,
    total_ratio,
    turns_for_power,
    turns_to_decision,
)

TURNS = 30
ICC = 0.3
MODELS = ("independent", "shared", "own", "episodes")
CELLS = ((0.0025, 400), (0.01, 100), (0.05, 60))
Arms = tuple[np.ndarray, np.ndarray]


def main() -> None:
    """Run every simulation and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "stats.json")
    parser.add_argument("--only", nargs="*", default=list(SIMULATIONS), choices=list(SIMULATIONS))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in args.only:
        began = time.process_time()
        found[name] = SIMULATIONS[name](args.scale)
        found[name].append({"scale": args.scale, "cpu_s": round(time.process_time() - began)})
        print(f"{name}: {time.process_time() - began:.0f} s CPU", flush=True)
        args.out.write_text(json.dumps(found, indent=1) + "\n")


def generator(*name: object) -> np.random.Generator:
    """Return the random numbers of one cell: they depend on its name alone."""
    return np.random.default_rng(zlib.crc32(repr(name).encode()))


def draw(model: str, conversations: int, rates: tuple[float, float], random: np.random.Generator) -> Arms:
    """Return which turns fail in each arm: two boolean tables of conversations × turns."""
    shape = (conversations, TURNS)
    if model == "independent":
        first, second = (random.random(shape) < rate for rate in rates)
    elif model == "shared":
        place = random.random((conversations, 1))
        first, second = (random.random(shape) < beta_quantile(place, rate) for rate in rates)
    elif model == "own":
        first, second = (
            random.random(shape) < beta_quantile(random.random((conversations, 1)), rate) for rate in rates
        )
    else:
        first, second = (episodes(conversations, rate, random) for rate in rates)
    return first, second


def beta_quantile(place: np.ndarray, rate: float) -> np.ndarray:
    """Return the conversations' rates whose mean is `rate` and whose turns correlate by ICC."""
    from scipy import special

    return np.asarray(special.betaincinv(rate * (1 - ICC) / ICC, (1 - rate) * (1 - ICC) / ICC, place))


def episodes(conversations: int, rate: float, random: np.random.Generator, stay: float = 0.8) -> np.ndarray:
    """Return failing turns that come in runs; their rate is `rate` at every place."""
    start = rate * (1 - stay) / (1 - rate)
    failing = np.zeros((conversations, TURNS), dtype=bool)
    failing[:, 0] = random.random(conversations) < rate
    for turn in range(1, TURNS):
        failing[:, turn] = random.random(conversations) < np.where(failing[:, turn - 1], stay, start)
    return failing


def events_of(arms: Arms) -> PairedEvents:
    """Return the paired events of two tables, each conversation an episode."""
    number = np.repeat(np.arange(len(arms[0])), TURNS)
    return PairedEvents(number, number, arms[0].ravel(), arms[1].ravel())


def share(flags: list[bool]) -> dict[str, float]:
    """Return a share of simulated runs and its standard error."""
    part = sum(flags) / len(flags)
    return {"share": round(part, 4), "se": round(math.sqrt(max(part * (1 - part), 1e-9) / len(flags)), 4)}


def intervals(events: PairedEvents) -> tuple[Interval | None, Interval | None]:
    """Return the intervals of difference and ratio as a comparison reports them."""
    counts, clusters = count_pairs(events), by_cluster(events)
    first = (counts.both + counts.baseline_only, counts.pairs)
    second = (counts.both + counts.candidate_only, counts.pairs)
    difference, ratio = newcombe_paired(counts), ratio_score(first, second)
    return envelope(difference, cluster_difference(clusters)), envelope(ratio, cluster_ratio(clusters))


def alike(scale: float) -> list[dict[str, Any]]:
    """A/A: false alarms of the fixed test and of continuous looking, coverage of the intervals for no difference."""
    return [
        _alike(model, rate, conversations, max(50, int(2000 * scale)))
        for rate, conversations in CELLS
        for model in MODELS
    ]


def _alike(model: str, rate: float, conversations: int, runs: int) -> dict[str, Any]:
    random = generator("alike", model, rate)
    alarms, naive, looks, difference, ratio = [], [], [], [], []
    for _ in range(runs):
        events = events_of(draw(model, conversations, (rate, rate), random))
        tested, counts = paired_test(events), count_pairs(events)
        alarms.append(tested.p_value < 0.05)
        naive.append(mcnemar_exact(counts.baseline_only, counts.candidate_only) < 0.05)
        looks.append(max(log_evidence(cluster_differences(events))) >= math.log(20))
        found = intervals(events)
        difference.append(found[0] is not None and not found[0].excludes(0.0))
        ratio.append(found[1] is None or not found[1].excludes(1.0))
    return {
        "model": model,
        "rate": rate,
        "conversations": conversations,
        "runs": runs,
        "false_alarm": share(alarms),
        "false_alarm_mcnemar_alone": share(naive),
        "false_alarm_continuous_looking": share(looks),
        "coverage_difference": share(difference),
        "coverage_ratio": share(ratio),
    }


def different(scale: float) -> list[dict[str, Any]]:
    """Candidate at half the rate: coverage of difference and ratio, power, and evidence by the end."""
    return [
        _different(model, rate, conversations, max(50, int(1000 * scale)))
        for rate, conversations in CELLS
        for model in MODELS
    ]


def _different(model: str, rate: float, conversations: int, runs: int) -> dict[str, Any]:
    random = generator("different", model, rate)
    alarms, looks, difference, ratio = [], [], [], []
    for _ in range(runs):
        events = events_of(draw(model, conversations, (rate, rate / 2), random))
        tested = paired_test(events)
        alarms.append(tested.p_value < 0.05)
        looks.append(max(log_evidence(cluster_differences(events))) >= math.log(20))
        found = intervals(events)
        difference.append(found[0] is not None and not found[0].excludes(-rate / 2))
        ratio.append(found[1] is None or not found[1].excludes(0.5))
    return {
        "model": model,
        "rate": rate,
        "conversations": conversations,
        "runs": runs,
        "power": share(alarms),
        "power_continuous_looking": share(looks),
        "coverage_difference": share(difference),
        "coverage_ratio": share(ratio),
    }


def anytime_coverage(scale: float) -> list[dict[str, Any]]:
    """How often the anytime interval of the difference misses the truth at any look (every fifth conversation)."""
    cases = [("independent", 1.0), ("own", 1.0), ("episodes", 1.0), ("independent", 0.5), ("own", 0.5)]
    return [_anytime(model, factor, max(50, int(400 * scale))) for model, factor in cases]


def _anytime(model: str, factor: float, runs: int) -> dict[str, Any]:
    random, rate = generator("anytime", model, factor), 0.01
    missed = []
    for _ in range(runs):
        first, second = draw(model, 200, (rate, rate * factor), random)
        meter, out = DifferenceMeter(), False
        for i, (a, b) in enumerate(zip(first.sum(1), second.sum(1), strict=True)):
            meter.add(TURNS, int(a), int(b))
            out = out or (i % 5 == 4 and meter.interval(0.05).excludes(rate * (factor - 1)))
        missed.append(out)
    return {"model": model, "rate": rate, "factor": factor, "runs": runs, "missed_at_any_look": share(missed)}


def power(scale: float) -> list[dict[str, Any]]:
    """Power at the planned number of turns, against what `soak power` predicts."""
    cases = [
        ("independent", 0.022, 0.0066),
        ("independent", 0.01, 0.0025),
        ("independent", 0.05, 0.025),
        ("correlated", 0.022, 0.0066),
        ("clustered", 0.022, 0.0066),
        ("clustered", 0.05, 0.025),
    ]
    return [_power(kind, first, second, max(50, int(1500 * scale))) for kind, first, second in cases]


def _power(kind: str, first: float, second: float, runs: int) -> dict[str, Any]:
    correlation, icc = (0.3 if kind == "correlated" else 0.0), (0.05 if kind == "clustered" else 0.0)
    rates = pair_rates(first, second, correlation)
    factor = clustering_factor(TURNS, icc)
    needed = turns_for_power(rates) or 0
    conversations = math.ceil(needed * factor / TURNS)
    random = generator("power", kind, first)
    alarms, gains = [], []
    for _ in range(runs):
        arms = (
            _correlated(conversations, first, rates, random)
            if not icc
            else _crowded(conversations, first, second, icc, random)
        )
        tested = paired_test(events_of(arms))
        alarms.append(tested.p_value < 0.05)
        gains.append(tested.by_cluster)
    return {
        "kind": kind,
        "rates": [first, second],
        "paired_correlation": correlation,
        "icc": icc,
        "turns": conversations * TURNS,
        "runs": runs,
        "predicted": round(power_paired(conversations * TURNS / factor, rates), 4),
        "simulated": share(alarms),
        "tested_by_episode": share(gains)["share"],
    }


def _correlated(conversations: int, first: float, rates: Any, random: np.random.Generator) -> Arms:
    """Return independent pairs that disagree as often as `rates` says."""
    place = random.random((conversations, TURNS))
    both = first - rates.baseline_only
    one = place < first
    other = (place < both) | ((place >= first) & (place < first + rates.candidate_only))
    return one, other


def _crowded(conversations: int, first: float, second: float, icc: float, random: np.random.Generator) -> Arms:
    """Return arms whose failures crowd in conversations of their own."""
    arms = []
    for rate in (first, second):
        place = random.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, (conversations, 1))
        arms.append(random.random((conversations, TURNS)) < place)
    return arms[0], arms[1]


def decision(scale: float) -> list[dict[str, Any]]:
    """Turns until a decision, watched by `Decider` with a budget of 6,000 turns per arm, against the fixed design."""
    return [_decision(second, max(20, int(300 * scale))) for second in (0.022, 0.014, 0.011, 0.0055, 0.0022, 0.0)]


def _decision(second: float, runs: int) -> dict[str, Any]:
    first, budget = 0.022, 6000
    random = generator("decision", second)
    outcomes, turns, given_up = [], [], []
    for _ in range(runs):
        outcome, pairs = _watch(draw("independent", budget // TURNS, (first, second), random), budget)
        outcomes.append(outcome)
        (given_up if outcome == "undecidable" else turns).append(pairs) if outcome else None
    rates = pair_rates(first, second)
    decided = [outcome in ("improvement", "regression") for outcome in outcomes]
    return {
        "rates": [first, second],
        "budget": budget,
        "runs": runs,
        "decided": share(decided),
        "given_up": share([outcome == "undecidable" for outcome in outcomes]),
        "median_turns_decided": float(np.median(turns)) if turns else None,
        "mean_turns_decided": round(float(np.mean(turns))) if turns else None,
        "median_turns_given_up": float(np.median(given_up)) if given_up else None,
        "predicted_turns": turns_to_decision(rates, bar=20.0),
        "fixed_design_turns_80": turns_for_power(rates),
    }


def _watch(arms: Arms, budget: int) -> tuple[str | None, int]:
    """Feed a decider with both arms' turns until it decides; return what, and after how many pairs."""
    decider = Decider(
        Decide(),
        arms=("a", "b"),
        turns_of={f"e{i}": TURNS for i in range(len(arms[0]))},
        allowed=Allowed(turns=budget),
    )
    for conversation in range(len(arms[0])):
        for turn in range(TURNS):
            for arm, table in zip(("a", "b"), arms, strict=True):
                key = TurnKey(episode=f"e{conversation}", turn=turn, pass_=0, arm=arm)
                said = Judgement(class_="garbage_loop" if table[conversation, turn] else "ok", reason="")
                found = decider.take(Record(key=key, outcome="finished", at=0.0, judgement=said))
                if found is not None:
                    return found.outcome, (conversation + 1) * TURNS
    return None, budget


def trend(scale: float) -> list[dict[str, Any]]:
    """False alarms of the trend test along the turns of a conversation, where there is no trend."""
    return [
        _trend(model, rate, conversations, max(50, int(500 * scale)))
        for rate, conversations in CELLS
        for model in ("independent", "own", "episodes")
    ]


def _trend(model: str, rate: float, conversations: int, runs: int) -> dict[str, Any]:
    random = generator("trend", model, rate)
    place = np.tile(np.arange(TURNS), conversations).tolist()
    number = np.repeat(np.arange(conversations), TURNS).tolist()
    by_signs, alone, unknown = [], [], 0
    for _ in range(runs):
        failing = draw(model, conversations, (rate, rate), random)[0].ravel().tolist()
        found = event_trend(place, failing, number)
        if found is None or found.p_value is None:
            unknown += 1
            continue
        by_signs.append(found.p_value < 0.05)
        alone.append(found.p_independent < 0.05)
    return {
        "model": model,
        "rate": rate,
        "conversations": conversations,
        "runs": runs,
        "too_few_to_tell": unknown,
        "false_alarm": share(by_signs),
        "false_alarm_cochran_armitage": share(alone),
    }


def wall_clock(scale: float) -> list[dict[str, Any]]:
    """Coverage of the ratio of total times: lognormal conversations, garbage turns of 200 s on top."""
    return [
        _wall_clock(clusters, correlation, max(50, int(1500 * scale)))
        for clusters in (10, 20, 50)
        for correlation in (0.9, 0.5)
    ]


def _wall_clock(clusters: int, correlation: float, runs: int) -> dict[str, Any]:
    random = generator("wall_clock", clusters, correlation)
    first, second = _times(400_000, correlation, random)
    truth = float(second.sum() / first.sum())
    covered, resampled = [], []
    for _ in range(runs):
        first, second = _times(clusters, correlation, random)
        found = total_ratio(first.tolist(), second.tolist())
        covered.append(found is not None and found.interval is not None and not found.interval.excludes(truth))
        weights = random.multinomial(clusters, np.full(clusters, 1 / clusters), 400)
        low, high = np.quantile((weights @ second) / (weights @ first), [0.025, 0.975])
        resampled.append(bool(low <= truth <= high))
    return {
        "clusters": clusters,
        "correlation": correlation,
        "runs": runs,
        "coverage": share(covered),
        "coverage_percentile_bootstrap": share(resampled),
    }


def _times(clusters: int, correlation: float, random: np.random.Generator) -> Arms:
    z = random.normal(size=(clusters, 2))
    other = correlation * z[:, 0] + math.sqrt(1 - correlation**2) * z[:, 1]
    first = 600 * np.exp(0.6 * z[:, 0]) + 200.0 * random.binomial(25, 0.022, clusters)
    return first, 480 * np.exp(0.6 * other) + 200.0 * random.binomial(25, 0.014, clusters)


def quantiles(scale: float) -> list[dict[str, Any]]:
    """Coverage of the order-statistic intervals of quantiles of 500 independent lognormal latencies."""
    runs = max(50, int(2000 * scale))
    found = []
    for fraction, place in ((0.5, 0.0), (0.95, 1.6448536), (0.99, 2.3263479)):
        random, truth = generator("quantiles", fraction), math.exp(place)
        covered = []
        for _ in range(runs):
            limits = quantile_limits(random.lognormal(size=500).tolist(), (), fraction)
            high = math.inf if limits.high is None else limits.high
            covered.append(limits.low is not None and limits.low <= truth <= high)
        found.append({"fraction": fraction, "runs": runs, "coverage": share(covered)})
    return found


SIMULATIONS: dict[str, Callable[[float], list[dict[str, Any]]]] = {
    "wall_clock": wall_clock,
    "quantiles": quantiles,
    "power": power,
    "decision": decision,
    "alike": alike,
    "different": different,
    "anytime_coverage": anytime_coverage,
    "trend": trend,
}


if __name__ == "__main__":
    main()

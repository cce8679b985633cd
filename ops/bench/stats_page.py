"""
The tables of `soak/stats/README.md`, computed: the worked example 11/500 against 7/500, and what simulations found.

    python ops/bench/stats_page.py            print them
    python ops/bench/stats_page.py --check    exit 1 if the page says something else
    python ops/bench/stats_page.py --write    put them into the page

What soak itself does comes from `soak.stats`; methods it does not use are computed here or by scipy, to compare.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special, stats
from tables import main, table

from soak.stats import (
    ClusterCounts,
    EvidenceMeter,
    anytime_rate,
    clopper_pearson,
    cluster_ratio,
    fisher,
    log_evidence,
    mcnemar_exact,
    mcnemar_midp,
    pair_rates,
    ratio_conditional,
    ratio_score,
    sign_flip,
    turns_for_power,
    turns_needed_paired,
    turns_needed_unpaired,
    turns_to_decision,
    upper_bound,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "soak" / "stats" / "README.md"
RESULTS = Path(__file__).parent / "results" / "stats.json"
A, B, N = 11, 7, 500
SHARED = (0, 3, 5, 7)
SPREAD = ([1] * 11 + [0] * 9, [0] * 5 + [1] * 7 + [0] * 8)
CROWDED = ([6, 3, 2] + [0] * 17, [1, 4, 0, 2] + [0] * 16)
Row = tuple[str, str]


def worked_example() -> str:
    """Return the table of the worked example."""
    counts = [[A, N - A], [B, N - B]]
    pooled = (A + B) / (2 * N)
    z = (A - B) / N / math.sqrt(2 * pooled * (1 - pooled) / N)
    ratio, exact = ratio_score((A, N), (B, N)), ratio_conditional((A, N), (B, N))
    assert ratio is not None and exact is not None
    rows: list[Row] = [
        ("Fisher exact, two-sided *", _p(fisher((A, N), (B, N)))),
        ("Barnard (pooled z, unconditional)", _p(stats.barnard_exact(np.transpose(counts), n=64).pvalue)),
        ("Boschloo (twice one-sided)", _p(stats.boschloo_exact(np.transpose(counts), n=64).pvalue)),
        ("pooled z", _p(2 * special.ndtr(-abs(z)))),
        ("conditional binomial, 7 of 18", _p(stats.binomtest(B, A + B).pvalue)),
        ("McNemar exact *, 0 / 3 / 5 / 7 turns failing in both", _each(lambda n: mcnemar_exact(A - n, B - n))),
        ("McNemar mid-p, the same", _each(lambda n: mcnemar_midp(A - n, B - n))),
        ("Cochran–Mantel–Haenszel by conversation, spread / crowded", f"{_p(_cmh(SPREAD))} / {_p(_cmh(CROWDED))}"),
        ("sign-flip over episodes *, spread / crowded", f"{_p(_flip(SPREAD))} / {_p(_flip(CROWDED))}"),
        ("rate ratio", f"{B / A:.3f}"),
        ("… score interval (Koopman) *", _span(ratio)),
        ("… conditional exact interval", _span(exact)),
        ("… by clusters, t(G−1) = GEE, spread / crowded", _clusters(19.0)),
        ("… by clusters, effective degrees of freedom *, spread / crowded", _clusters(None)),
        ("… percentile bootstrap of conversations, spread / crowded", f"{_boot(SPREAD)} / {_boot(CROWDED)}"),
        ("rate of 11/500, exact 95 % * (anytime *)", _rate(A)),
        ("rate of 7/500, exact 95 % * (anytime *)", _rate(B)),
        ("e-value by turn, 0 / 3 / 5 / 7 failing in both", _each(lambda n: _turn_e(A - n, B - n), "{:.2g}")),
        ("e-value by conversation *, spread / crowded", f"{_talk_e(SPREAD):.2f} / {_talk_e(CROWDED):.2f}"),
        ("0 of 299, 500, 1,000, 3,000: below, with 95 % *", _bounds(lambda n: upper_bound(0, n))),
        ("… anytime *", _bounds(lambda n: anytime_rate(0, n).high)),
    ]
    return table(("method (* used by soak)", "11/500 → 7/500"), rows)


def planning() -> str:
    """Return the table of turns needed from 2.2 %."""
    rows = []
    for second in (0.014, 0.011, 0.0066, 0.0022, 0.0):
        alone = pair_rates(0.022, second)
        half = (0.022 - second / 2, second / 2)
        rows.append(
            (
                f"{100 * second:g} %",
                f"{turns_needed_unpaired(0.022, second):,}",
                f"{turns_for_power(alone):,}",
                f"{turns_needed_paired(*half):,}",
                f"{turns_to_decision(alone, bar=20.0):,}",
            )
        )
    head = (
        "2.2 % against",
        "normal approximation",
        "exact McNemar",
        "half of B's failures recur",
        "by evidence, typical",
    )
    return table(head, rows)


def calibration() -> str:
    """Return the tables of what the simulations found."""
    found = json.loads(RESULTS.read_text())
    parts = [
        _cells(found["alike"], ("model", "rate", "conversations", "false_alarm", "false_alarm_mcnemar_alone",
                                "false_alarm_continuous_looking", "coverage_difference", "coverage_ratio")),
        _cells(found["different"], ("model", "rate", "conversations", "power", "power_continuous_looking",
                                    "coverage_difference", "coverage_ratio")),
        _cells(found["power"], ("kind", "rates", "icc", "turns", "predicted", "simulated")),
        _cells(found["decision"], ("rates", "decided", "given_up", "median_turns_decided", "median_turns_given_up",
                                   "predicted_turns", "fixed_design_turns_80")),
        _cells(found["anytime_coverage"], ("model", "rate", "factor", "missed_at_any_look")),
        _cells(found["trend"], ("model", "rate", "conversations", "too_few_to_tell", "false_alarm",
                                "false_alarm_cochran_armitage")),
        _cells(found["wall_clock"], ("clusters", "correlation", "coverage", "coverage_percentile_bootstrap")),
        _cells(found["quantiles"], ("fraction", "coverage")),
    ]  # fmt: skip
    titles = (
        "A/A, nominal 5 % and 95 %",
        "Candidate at half the rate, nominal 95 %",
        "Power at the planned turns",
        "A run of at most 6,000 turns per arm watched by `Decider`",
        "Anytime interval of the difference, nominal 5 %",
        "Trend along the conversation where there is none, nominal 5 %",
        "Ratio of total times, nominal 95 %",
        "Quantiles of 500 latencies, nominal 95 %",
    )
    return "\n\n".join(f"**{title}**\n\n{part}" for title, part in zip(titles, parts, strict=True))


def _cells(results: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    rows = [tuple(_shown(result[name]) for name in names) for result in results if names[0] in result]
    return table(tuple(name.replace("_", " ") for name in names), rows)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['share']:.3f} ± {value['se']:.3f}"
    if isinstance(value, list):
        return " → ".join(f"{100 * rate:g} %" for rate in value)
    return "–" if value is None else (f"{value:,.0f}" if isinstance(value, float) and value > 10 else str(value))


def _p(p: float | None) -> str:
    return f"p = {p:.3f}"


def _each(value: Callable[[int], float], form: str = "{:.3f}") -> str:
    return " / ".join(form.format(value(both)) for both in SHARED)


def _span(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.2f}–{interval[1]:.2f}"


def _clusters(freedom: float | None) -> str:
    found = [
        cluster_ratio([ClusterCounts(25, a, b) for a, b in zip(*arms, strict=True)], freedom=freedom)
        for arms in (SPREAD, CROWDED)
    ]
    return " / ".join(_span(interval) for interval in found if interval is not None)


def _flip(arms: tuple[list[int], list[int]]) -> float:
    return sign_flip([b - a for a, b in zip(*arms, strict=True)])


def _cmh(arms: tuple[list[int], list[int]]) -> float:
    """Cochran–Mantel–Haenszel with continuity correction over conversations of 25 turns."""
    excess = variance = 0.0
    for a, b in zip(*arms, strict=True):
        events = a + b
        excess += a - events / 2
        variance += events * (50 - events) / 4 / 49
    return float(special.chdtrc(1, max(0.0, abs(excess) - 0.5) ** 2 / variance))


def _boot(arms: tuple[list[int], list[int]]) -> str:
    first, second = (np.asarray(arm) for arm in arms)
    weights = np.random.default_rng(0).multinomial(20, np.full(20, 1 / 20), size=2000)
    low, high = np.exp(np.quantile(np.log((weights @ second + 0.5) / (weights @ first + 0.5)), [0.025, 0.975]))
    return f"{low:.2f}–{high:.2f}"


def _rate(events: int) -> str:
    exact, anytime = clopper_pearson(events, N), anytime_rate(events, N)
    assert exact is not None
    return (
        f"{100 * events / N:.1f} % ({100 * exact.low:.2f}–{100 * exact.high:.2f})"
        f" ({100 * anytime.low:.2f}–{100 * anytime.high:.2f})"
    )


def _turn_e(b: int, c: int) -> float:
    """Beta(1/2, 1/2) mixture against a fair coin."""
    return math.exp(special.betaln(0.5 + b, 0.5 + c) - special.betaln(0.5, 0.5) + (b + c) * math.log(2))


def _talk_e(arms: tuple[list[int], list[int]]) -> float:
    differences = [b - a for a, b in zip(*arms, strict=True)]
    meter = EvidenceMeter()
    for difference in differences:
        meter.add(difference)
    assert math.isclose(meter.log_e, log_evidence(differences)[-1])
    return math.exp(meter.log_e)


def _bounds(bound: Callable[[int], float | None]) -> str:
    return ", ".join(f"{100 * (bound(n) or 0.0):.2g} %" for n in (299, 500, 1000, 3000))


TABLES: dict[str, Callable[[], str]] = {
    "worked example": worked_example,
    "planning": planning,
    "calibration": calibration,
}


if __name__ == "__main__":
    main(__doc__, PAGE, TABLES)

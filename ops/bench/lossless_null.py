"""
How often does the losslessness test alarm on a healthy engine? From real tokens, kept with their scores.

    python -m ops.bench.lossless_null FILE… [--runs 200] [--tokens 3000 10000] [--out RESULT.json]
    python -m ops.bench.lossless_null --page check|write      its table in soak/stats/lossless/README.md

FILE is a file of scores of a healthy build (`ops.bench.collect_tokens`, or `soak probe --lossless`); several of one
pair are taken together. For each sampling law in it runs are drawn: whole conversations, with replacement, until a run
has so many tokens. Each run is looked at once at its end, all tests deciding. The share of runs that deviate is given
with its 95 % interval (Clopper-Pearson over the runs; they are drawn from one set of tokens, so they are not
independent beyond it), and what alarmed.
"""

import argparse
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ops.bench.lossless import page, table
from soak.facts import RescoredOutput, RescoringCard, SamplingLaw
from soak.facts.rescoring import from_lines
from soak.stats import clopper_pearson
from soak.stats.lossless import Bars, judge, read_arm
from soak.stats.lossless.evidence import Rates
from soak.stats.lossless.judging import verdict_of
from soak.stats.lossless.scores import Scores
from soak.stats.lossless.testing import evidence_of, tests_of

RESULT = Path(__file__).parent / "results" / "lossless_null.json"
BARS = Bars()
RATES = Rates(BARS.outside_rate, BARS.impossible_rate)


def by_law(paths: Sequence[Path]) -> tuple[RescoringCard, dict[SamplingLaw, list[RescoredOutput]]]:
    """Return the outputs of all files under the law they were drawn by."""
    found: dict[SamplingLaw, list[RescoredOutput]] = {}
    cards = []
    for path in paths:
        with path.open("rb") as lines:
            card, outputs = from_lines(lines, path.name)
            cards.append(card)
            for output in outputs:
                found.setdefault(output.law, []).append(output)
    return cards[0], found


def name_of(law: SamplingLaw) -> str:
    """Return a law as a person reads it."""
    top_k = f", top_k {law.top_k}" if law.top_k else ""
    return f"T {law.temperature:g}, top_p {law.top_p:g}{top_k}"


def drawn(scores: Scores, tokens: int, random: np.random.Generator) -> Scores:
    """Return a run: whole conversations, with replacement, of at least so many tokens together."""
    found = conversations(scores)
    parts, size = [], 0
    while size < tokens:
        parts.append(found[int(random.integers(len(found)))])
        size += len(parts[-1])
    return taken(scores, parts)


def conversations(scores: Scores) -> list[np.ndarray]:
    """Return the rows of each conversation."""
    starts = np.flatnonzero(np.diff(scores.output, prepend=-1))
    return np.split(np.arange(len(scores.output)), starts[1:])


def taken(scores: Scores, parts: Sequence[np.ndarray]) -> Scores:
    """Return these rows, part after part."""
    rows = np.concatenate(parts)
    return Scores(*(column[rows] for column in scores))


def alarms_of(run: Scores) -> tuple[bool, list[str]]:
    """Return whether a run deviates, and the tests that say so."""
    tests = tests_of(run, evidence_of(run, RATES, BARS), RATES, BARS)
    return verdict_of(run, tests, BARS) == "deviates", [test.name for test in tests if test.alarms]


def measured(scores: Scores, law: SamplingLaw, tokens: int, runs: int) -> dict[str, Any]:
    """Return the figures of one law and run length."""
    random = np.random.default_rng(zlib.crc32(f"{name_of(law)} {tokens}".encode()))
    found = [alarms_of(drawn(scores, tokens, random)) for _ in range(runs)]
    alarmed = sum(alarm for alarm, _ in found)
    low, high = clopper_pearson(alarmed, runs) or (0.0, 1.0)
    return {
        "tokens": tokens,
        "runs": runs,
        "alarmed": alarmed,
        "share": round(alarmed / runs, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "tests": dict(Counter(name for _, names in found for name in names)),
    }


def figures(paths: Sequence[Path], lengths: Sequence[int], runs: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each law."""
    card, found = by_law(paths)
    for law, outputs in found.items():
        scores = read_arm(card, outputs, BARS).scores
        if scores is None:
            continue
        yield {
            "sampling": name_of(law),
            "sampled_by": card.sampled_by,
            "scored_by": card.scored_by,
            "scored_in": card.scored_in,
            "width": max(output.width for output in outputs),
            "conversations": len(outputs),
            "tokens": len(scores.output),
            "testable": round(float((scores.steady | ~scores.drawn).mean()), 4),
            "mean_shift": round(float(scores.shift[scores.steady & scores.drawn].mean()), 5),
            "outside": int(scores.outside.sum()),
            "impossible": int(scores.impossible.sum()),
            "whole": judge(card, outputs).sentence,
            "runs": [measured(scores, law, tokens, runs) for tokens in lengths],
        }


def lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of the page: a line for each law and length of run."""
    head = ["sampling", "fresh tokens", "conversations", "tokens of a run", "runs that deviate", "95 %", "mean shift"]
    body = [
        [
            row["sampling"],
            f"{row['tokens']:,}",
            f"{row['conversations']:,}",
            f"{run['tokens']:,}",
            f"{run['alarmed']} of {run['runs']}",
            f"{run['low']:.1%} to {run['high']:.1%}",
            f"{row['mean_shift']:+.4f}",
        ]
        for row in rows
        for run in row["runs"]
    ]
    return table(head, body)


def main() -> None:
    """Read the command line, measure, and print a line for each law and length; or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--tokens", type=int, nargs="+", default=[3000, 10_000])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", choices=("check", "write"))
    args = parser.parse_args()
    if bool(args.files) == bool(args.page):
        parser.error("either files of scores or --page is wanted")
    if args.page:
        page("null", lines(json.loads(RESULT.read_text())), args.page, "python -m ops.bench.lossless_null")
        return
    rows = []
    for row in figures(args.files, args.tokens, args.runs):
        rows.append(row)
        print(f"{row['sampling']}: {row['tokens']:,} tokens of {row['conversations']} conversations; {row['whole']}")
        for run in row["runs"]:
            limits = f"{run['low']:.1%} to {run['high']:.1%}"
            print(
                f"  {run['tokens']:,} tokens: {run['alarmed']} of {run['runs']} runs deviate ({limits}) {run['tests']}"
            )
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""
Do the cache probes name a stale cache planted in a real vLLM, and nothing where none is? `python ops/bench/planted.py`.

One engine (the local build with tests/planted on its import path), faults switched at run time. For each seed one
conversation of its own, probed with nothing planted and with `stale_cache`: before and after a load on the same
prefix (`aba`), and on held prefixes after conversations branched from them (`reprobe`). Every request has a cache salt,
so that no unit meets blocks of another. About ten minutes on two cores for ten seeds.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import msgspec
from rigs.planting import PlantedEngine, planted_engine

from soak.app.probe.benches import ProbeOrder, open_benches
from soak.app.probe.caches import CacheOrder, probe_caches
from soak.app.sides import arm_spec
from soak.facts import Case, Message, Sampling
from soak.importers import find_corpus, load_corpus
from soak.launch import Progress

FAULT = "stale_cache"
ORDER = CacheOrder(kinds=("aba", "reprobe"), prefixes=1, in_flight=4)
_WORDS = [
    "row",
    "field",
    "quote",
    "header",
    "delimiter",
    "buffer",
    "offset",
    "parser",
    "table",
    "cell",
    "index",
    "writer",
    "reader",
    "flush",
    "encoding",
]


class Quiet:
    """Hears of preparation and says nothing."""

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """Say nothing."""


def case_of(seed: int, name: str, turn: int = -1) -> Case:
    """Return a turn of a bundled conversation with a preface of its own, so that no block of it is another's."""
    episodes = load_corpus(find_corpus("smoke")).episodes
    episode = episodes[seed % len(episodes)]
    draw = random.Random(f"{name} {seed}")
    preface = " ".join(draw.choices(_WORDS, k=90))
    messages = [
        Message(role="system", content=f"Notes of {name} {seed}: {preface}."),
        *episode.prefix(episode.turns[turn]),
    ]
    return Case(
        name=f"{name} {seed}",
        messages=tuple(messages),
        tools=episode.tools,
        tool_mode="text",
        sampling=Sampling(max_tokens=24),
    )


def probed(engine: PlantedEngine, seed: int, planted: str, folder: Path) -> dict[str, Any]:
    """Return what the probes found with these faults planted."""
    engine.plant(planted)
    name = "planted" if planted else "healthy"
    order = ProbeOrder(
        target=arm_spec("candidate", engine.url), folder=folder / f"{name}-{seed}", max_requests=500, tools="text"
    )
    began = time.monotonic()
    with open_benches(order, Quiet()) as benches:
        found = probe_caches(case_of(seed, name), ORDER, benches)
    masses = [probe.apart.mass for probe in found.probes if probe.apart.mass is not None]
    return {
        "seed": seed,
        "planted": planted,
        "result": found.result,
        "hits": found.hits,
        "faults": sum(probe.verdict == "fault" for probe in found.probes),
        "floor": found.floor,
        "largest_mass": max(masses, default=None),
        "requests": found.requests,
        "fired": engine.fired(FAULT) if planted else 0,
        "took_s": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Probe each seed with and without the fault; print a table, or all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, planted_engine(Path(place), _tell) as engine:
        for seed in range(options.seeds):
            for planted in ("", f"{FAULT};seed={seed}"):
                rows.append(probed(engine, seed, planted, Path(place)))
                print(msgspec.json.encode(rows[-1]).decode(), file=sys.stderr, flush=True)
    named = sum(row["result"] == "cache fault" for row in rows if row["planted"])
    alarms = sum(row["result"] == "cache fault" for row in rows if not row["planted"])
    if options.json:
        print(json.dumps({"seeds": options.seeds, "named": named, "false": alarms, "rows": rows}, indent=1))
    else:
        print(f"stale cache named in {named} of {options.seeds} seeds; {alarms} of {options.seeds} false alarms")


def _tell(progress: Progress) -> None:
    if progress.ended:
        print(f"{progress.step}: {progress.detail} ({progress.elapsed_s:.0f} s)", file=sys.stderr)


if __name__ == "__main__":
    main()

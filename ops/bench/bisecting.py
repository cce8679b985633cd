"""
How often `soak bisect` finds the right build: real servers, started and stopped by the command, one bisection a seed.

Each seed draws five to eight builds, at which of them the fault appears, its rate, and the rate at which good builds
fail as well; each build is a scripted server of its own seed. Every other bisection measures its rates on the ends; the
others are told bounds of them.

  python ops/bench/bisecting.py --seeds 50 --result ops/bench/results/bisecting.json
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOISE = (0.0, 0.01, 0.02)
FAULTS = (0.15, 0.2, 0.3)
STATED = ("--good-rate", "2.5%", "--bad-rate", "12%")
LIMIT_S = 300


def build(folder: Path, name: str, seed: int, rate: float) -> str:
    """Write a build that starts the scripted server with this rate of early stops."""
    words = [sys.executable, "-m", "fakes", "--port", "{port}", "--seed", str(seed), "--rates", f"early_stop={rate}"]
    file = {
        "about": "The scripted server.",
        "engine": "command",
        "model": "fake-model",
        "command": words,
        "environment": {"PYTHONPATH": str(ROOT / "tests"), "OPENBLAS_NUM_THREADS": "1"},
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(file))
    return str(path)


def once(seed: int, folder: Path) -> dict[str, Any]:
    """Run one bisection and return what was true and what it found."""
    dice = random.Random(seed)
    count = dice.randint(5, 8)
    first_bad = dice.randint(1, count - 1)
    noise, fault = dice.choice(NOISE), dice.choice(FAULTS)
    files = [build(folder, f"b{n}", 1000 * seed + n, fault + noise if n >= first_bad else noise) for n in range(count)]
    between = [word for file in files[1:-1] for word in ("--between", file)]
    words = [sys.executable, "-m", "soak.cli", "bisect", "--good", files[0], "--bad", files[-1], *between]
    words += ["--scenario", "smoke", "--fail-on", "early_stop", "--set", "load.in_flight=8", "--set", f"seed={seed}"]
    words += [*(STATED if seed % 2 else ()), "--run", str(folder / "run"), "--json"]
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    found = json.loads(done.stdout) if done.stdout else {"outcome": f"exit {done.returncode}: {done.stderr[-500:]}"}
    return {
        "seed": seed,
        "builds": count,
        "true": f"b{first_bad}",
        "found": found.get("first_bad"),
        "outcome": found["outcome"],
        "noise": noise,
        "fault": fault,
        "measured": not seed % 2,
        "steps": len(found.get("steps", ())),
        "turns": found.get("turns"),
        "error_bound": found.get("error_bound"),
        "took_s": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Run all seeds and say how many were right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="2: only those that measure, or from --first 1 the others")
    parser.add_argument("--result", type=Path)
    args = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="soak-bench-")
    runs = []
    for seed in range(args.first, args.first + args.seeds, args.every):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(once(seed, Path(folder)))
        print(json.dumps(runs[-1]), flush=True)
    right = sum(run["found"] == run["true"] for run in runs)
    turns = sorted(run["turns"] or 0 for run in runs)
    result = {
        "right": right,
        "of": len(runs),
        "turns_median": turns[len(turns) // 2],
        "turns_max": turns[-1],
        "error_bound_max": max(run["error_bound"] or 1.0 for run in runs),
        "runs": runs,
    }
    print(f"{right} of {len(runs)} right; turns: median {result['turns_median']}, at most {result['turns_max']}")
    if args.result:
        args.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

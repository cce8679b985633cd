"""
Spoils the golden transcripts of every format 20,000 times each and imports what comes of it.

    python ops/bench/import_fuzz.py [--each 20000] [--format NAME] [--first 0]

Fails, naming fixture and seed, if anything but a `TranscriptError` or `CorpusError` is raised, if an import takes more
than 5 s of processor time, if an episode comes out that a server would refuse, or if text is lost silently. Prints one
line a format: inputs, imported, refused, slowest.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from rigs.transcripts import NAMES, examine, files_of, lay_out, spoil

LONGEST_S = 5.0


def formats() -> dict[str, list[str]]:
    """Return the fixtures of each format."""
    found: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            reports, _ = examine(lay_out(name, Path(folder)))
            found[str(reports[0].format)].append(name)
    return dict(sorted(found.items()))


def fuzz(name: str, seeds: range, folder: Path) -> tuple[int, int, float, int]:
    """Return imported, refused, the slowest in seconds, and failures over the spoilt versions of one fixture."""
    source = lay_out(name, folder)
    whole = {path: path.read_bytes() for path in files_of(source)}
    imported = refused = failures = 0
    slowest = 0.0
    for seed in seeds:
        for path, data in whole.items():
            path.write_bytes(data)
        spoil(source, seed)
        began = time.process_time()
        try:
            _, error = examine(source)
        except Exception:
            failures += 1
            print(f"FAILED {name} seed {seed}\n{traceback.format_exc()}", flush=True)
            continue
        taken = time.process_time() - began
        slowest = max(slowest, taken)
        if taken > LONGEST_S:
            failures += 1
            print(f"FAILED {name} seed {seed}: {taken:.1f} s", flush=True)
        imported, refused = imported + (error is None), refused + (error is not None)
    return imported, refused, slowest, failures


def main() -> int:
    """Fuzz every format; return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=20_000, help="spoilt inputs a format")
    parser.add_argument("--format", help="only this format")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for format_, names in formats().items():
            if given.format not in (None, format_):
                continue
            each = -(-given.each // len(names))
            seeds = range(given.first, given.first + each)
            counts = [fuzz(name, seeds, Path(folder)) for name in names]
            imported, refused, failures = (sum(one[i] for one in counts) for i in (0, 1, 3))
            slowest = max(one[2] for one in counts)
            print(
                f"{format_:24} {each * len(names):6} inputs  {imported:6} imported  {refused:6} refused  "
                f"slowest {slowest:.2f} s  {failures} failed",
                flush=True,
            )
            failed += failures
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

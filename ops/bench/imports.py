"""
How fast transcripts are imported, and in how much memory, against parsing them with the standard library.

    python ops/bench/imports.py [--megabytes 60] [--out ops/bench/results/imports.json]

Writes mini-swe-agent trajectories, OpenAI chat JSON Lines and a parquet file of realistic shape (text from the bundled
corpus), imports each in a process of its own, and prints MB of file per second of processor time: `json.loads` alone,
the import, and the import with the writing of the corpus; with the peak memory of the import. A parquet file counts
with the size its rows have as JSON (the library's start, two to three seconds, is in the figure), and is read for the
baseline by pyarrow. One core; the aim is 50 MB/s.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.importers import Import, write_corpus
from soak.importers.filler import bundled_filler

TURNS = 60
_STEP_TOKENS = 500


def conversation(number: int) -> list[dict[str, Any]]:
    """Return the messages of one long run: system, task, and sixty steps with their observations."""
    text = bundled_filler().tokens
    messages = [{"role": "system", "content": text("system", 300)}, {"role": "user", "content": text(f"{number}", 900)}]
    for turn in range(TURNS):
        messages.append({"role": "assistant", "content": text(f"{number}/{turn}/answer", 90)})
        messages.append({"role": "user", "content": text(f"{number}/{turn}/result", _STEP_TOKENS)})
    return messages


def write_openai(folder: Path, megabytes: int) -> Path:
    """Write fine-tuning lines."""
    path = folder / "openai.jsonl"
    number = 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(json.dumps({"messages": conversation(number)}) + "\n")
            number += 1
    return path


def write_requests(folder: Path, megabytes: int) -> Path:
    """Write one request a line, each with the whole history."""
    path = folder / "requests.jsonl"
    number = 0
    with path.open("w") as file:
        while file.tell() < megabytes * 1_000_000:
            messages = conversation(number)
            for end in range(2, len(messages), 2):
                file.write(json.dumps({"conversation_id": str(number), "messages": messages[:end]}) + "\n")
            number += 1
    return path


def write_mini(folder: Path, megabytes: int) -> Path:
    """Write trajectories, indented as mini-swe-agent writes them, with the provider's response beside each answer."""
    path = folder / "mini"
    path.mkdir()
    number = written = 0
    while written < megabytes * 1_000_000:
        messages: list[dict[str, Any]] = conversation(number)
        for message in messages:
            if message["role"] == "assistant":
                usage = {"prompt_tokens": 9000, "completion_tokens": 90, "total_tokens": 9090}
                choice = {"finish_reason": "stop", "index": 0, "message": {"content": message["content"]}}
                message["extra"] = {"response": {"id": "x", "choices": [choice], "usage": usage}}
        root = {"info": {"mini_version": "2.4"}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
        written += (path / f"{number}.traj.json").write_text(json.dumps(root, indent=2))
        number += 1
    return path


def write_parquet(folder: Path, megabytes: int) -> Path:
    """Write rows of a trajectory data set, in row groups of the size that pyarrow gives them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    size = 0
    while size < megabytes * 1_000_000:
        rows.append({"messages": conversation(len(rows)), "instance_id": f"run-{len(rows)}", "resolved": True})
        size += len(json.dumps(rows[-1]))
    path = folder / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    (folder / "rows.parquet.size").write_text(str(size))
    return path


def size_of(source: Path) -> int:
    """Return the bytes of a source as JSON."""
    told = source.with_name(source.name + ".size")
    return int(told.read_text()) if told.exists() else sum(path.stat().st_size for path in files(source))


def files(source: Path) -> list[Path]:
    """Return the files of a source."""
    return sorted(source.iterdir()) if source.is_dir() else [source]


def parse(source: Path) -> None:
    """Parse a source with the standard library: the baseline."""
    for path in files(source):
        if path.suffix == ".jsonl":
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)
        elif path.suffix == ".parquet":
            import pyarrow.parquet as pq

            for batch in pq.ParquetFile(path).iter_batches(32):
                batch.to_pylist()
        else:
            json.loads(path.read_bytes())


def count(source: Path) -> None:
    """Import a source without keeping it."""
    for _ in Import([source]).episodes():
        pass


def store(source: Path) -> None:
    """Import a source into a corpus."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder) / "corpus", Import([source]).episodes())


WAYS: dict[str, Callable[[Path], None]] = {"json.loads": parse, "import": count, "import and write": store}


def measure(way: str, source: Path) -> None:
    """Print seconds of processor time and peak memory in MiB of one way to read `source`."""
    began = time.process_time()
    WAYS[way](source)
    taken = time.process_time() - began
    print(taken, peak_mib())


def peak_mib() -> float:
    """Return the most memory this process has held; getrusage would tell that of its parent where that was more."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def main() -> int:
    """Write the sources, measure each way in a process of its own, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--out", type=Path, help="also write the figures here, as JSON")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "SOURCE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], Path(given.measure[1]))
        return 0
    figures: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for write in (write_mini, write_openai, write_requests, write_parquet):
            source = write(Path(folder), given.megabytes)
            size = size_of(source) / 1e6
            name = write.__name__.removeprefix("write_")
            print(f"{name}: {size:.0f} MB")
            figures[name] = {}
            for way in WAYS:
                command = [sys.executable, __file__, "--measure", way, str(source)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                taken, memory = map(float, done.stdout.split())
                print(f"  {way:18} {size / taken:7.0f} MB/s   peak {memory:6.0f} MiB", flush=True)
                figures[name][way] = {"mb": round(size), "mb_per_s": round(size / taken), "peak_mib": round(memory)}
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Command line of the recorder: see the docstring of `ops.recorder`."""

import argparse
import json
import sys
import time
from pathlib import Path

from ops.recorder.corpus import differences, environment_differences, episode_difference, files_of, line_of, write
from ops.recorder.record import Recorded, RecordError, corpora, depth_of, record, scripts
from ops.recorder.repository import RepositoryError
from ops.recorder.sandbox import SandboxError, workplace
from ops.recorder.script import ScriptError
from ops.recorder.tasks import tasks_file

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts"
TASKS = Path(__file__).parents[2] / "scenarios" / "tasks" / "swe_tasks.jsonl"


def main(arguments: list[str] | None = None) -> int:
    """Rebuild corpora; return 0 if they are as recorded (or were written), 1 if they differ, 2 if a script is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ops.recorder", description="Records the corpora again.")
    parser.add_argument(
        "verb", choices=["rebuild", "show", "tasks"], help="`show` prints an episode, `tasks` makes a tasks file"
    )
    parser.add_argument("--corpus", choices=corpora(), action="append", help="only this one (may be given again)")
    parser.add_argument("--episode", help="record only the scripts whose name contains this; never writes")
    parser.add_argument("--write", action="store_true", help="replace what is in transcripts/, or the tasks file")
    parser.add_argument("--transcripts", type=Path, default=TRANSCRIPTS, help="folder of the corpora")
    given = parser.parse_args(arguments)
    try:
        if given.verb == "tasks":
            return _some_tasks(given.episode) if given.episode else _tasks(given.write)
        if given.verb == "show":
            return max(_show(path) for path in _chosen(given.corpus or corpora(), given.episode or ""))
        if given.episode:
            return max(_one(path, given.transcripts) for path in _chosen(given.corpus or corpora(), given.episode))
        return max(_rebuild(corpus, given.transcripts, given.write) for corpus in given.corpus or corpora())
    except (RecordError, RepositoryError, SandboxError, ScriptError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def _tasks(replace: bool) -> int:
    """Make the tasks file again; compare it with the one that is there, or replace that."""
    made = tasks_file()
    if replace:
        TASKS.parent.mkdir(exist_ok=True)
        TASKS.write_bytes(made)
    same = TASKS.is_file() and TASKS.read_bytes() == made
    print(f"{TASKS.name}: {'the same byte for byte' if same else 'differs'} ({len(made):,} bytes)")
    return 0 if same else 1


def _some_tasks(part: str) -> int:
    """Make the tasks of some episodes again and look for them, line by line, in the file that is there."""
    made = tasks_file(part).splitlines()
    there = set(TASKS.read_bytes().splitlines()) if TASKS.is_file() else set()
    same = bool(made) and there.issuperset(made)
    print(f"{TASKS.name}, {part}: {'the same byte for byte' if same else 'differs'} ({len(made)} lines)")
    return 0 if same else 1


def _chosen(names: list[str], part: str) -> list[Path]:
    found = [path for name in names for path in scripts(name) if part in path.stem]
    if not found:
        raise ScriptError(f"no script has {part!r} in its name")
    return found


def _rebuild(corpus: str, transcripts: Path, replace: bool) -> int:
    """Record one corpus again; compare it with what is there, or replace that."""
    began = time.monotonic()
    recorded = [_recorded(path) for path in scripts(corpus)]
    files = files_of(corpus, recorded)
    folder = transcripts / corpus
    if replace:
        write(files, folder)
        print(f"{corpus}: written, {len(recorded)} episodes in {time.monotonic() - began:.0f} s")
        return 0
    found = differences(corpus, files, folder)
    for text in environment_differences(folder) if found else []:
        print(f"environment: {text}")
    for text in found:
        print(text)
    print(f"{corpus}: {'differs' if found else 'the same byte for byte'} ({time.monotonic() - began:.0f} s)")
    return 1 if found else 0


def _one(path: Path, transcripts: Path) -> int:
    """Record one script and compare its episode with the recorded one."""
    episode = _recorded(path).episode
    line = line_of(episode)
    folder = transcripts / path.parent.name
    file = folder / f"{episode.meta['repository']}.jsonl"
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    if line in lines:
        print(f"{episode.id}: the same byte for byte")
        return 0
    for text in environment_differences(folder):
        print(f"environment: {text}")
    print(f"{episode.id}: {_difference(line, lines, episode.id)}")
    return 1


def _show(path: Path) -> int:
    """Print one episode, recorded now, for reading."""
    with workplace() as box:
        episode = record(box, path).episode
    for number, node in enumerate(episode.nodes):
        message = node.message
        print(f"──── {number} {message.role} ────")
        for part in (message.reasoning and f"[reasoning] {message.reasoning}", message.content):
            print(part or "", end="\n" if part else "")
        for call in message.tool_calls:
            print(f"→ {call.name} {call.arguments}")
    return 0


def _difference(line: bytes, lines: list[bytes], name: str) -> str:
    old = next((episode for episode in map(json.loads, lines) if episode["id"] == name), None)
    return "not in the corpus" if old is None else episode_difference(old, json.loads(line))


def _recorded(path: Path) -> Recorded:
    """Record one script, holding the workplace for no longer than that, and say so."""
    with workplace() as box:
        item = record(box, path)
    print(f"  {item.episode.id}: {len(item.episode.turns)} turns, {depth_of(item.episode):,} characters", flush=True)
    return item


if __name__ == "__main__":
    sys.exit(main())

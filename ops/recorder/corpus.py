"""A corpus folder: written from recorded episodes, and compared with one that was written before."""

import hashlib
import json
from pathlib import Path
from typing import Any

from ops.recorder.record import Recorded, depth_of, versions
from soak.facts import Episode, encode

STEPS: tuple[tuple[int, str], ...] = (
    (0, "below 10,000"),
    (10_000, "10,000 to 30,000"),
    (30_000, "30,000 to 60,000"),
    (60_000, "60,000 to 100,000"),
    (100_000, "100,000 to 150,000"),
    (150_000, "150,000 to 240,000"),
    (240_000, "240,000 and more"),
)
INTRO = {
    "smoke": "A tiny corpus for tests: one small repository, a few turns each.",
    "swe_agent": "A coding agent mends defects in small repositories, up to depths of about 60,000 tokens.",
}


def line_of(episode: Episode) -> bytes:
    """Return the episode as one line of `soak.episode/1` JSONL, with its line break."""
    value = {
        "schema": "soak.episode/1",
        "id": episode.id,
        "tools": list(episode.tools),
        "messages": [node.message for node in episode.nodes],
        "turns": list(episode.turns),
        "meta": episode.meta,
    }
    return encode(value) + b"\n"


def files_of(name: str, recorded: list[Recorded]) -> dict[str, bytes]:
    """Return the files of corpus `name`: one JSONL a repository, and CORPUS.md."""
    files: dict[str, bytes] = {}
    for item in recorded:
        file = f"{item.episode.meta['repository']}.jsonl"
        files[file] = files.get(file, b"") + line_of(item.episode)
    files = dict(sorted(files.items()))
    return {**files, "CORPUS.md": _card(name, recorded, files).encode()}


def _card(name: str, recorded: list[Recorded], files: dict[str, bytes]) -> str:
    """Return the text of CORPUS.md."""
    turns = sum(len(item.episode.turns) for item in recorded)
    whole = hashlib.sha256(b"".join(files.values())).hexdigest()
    depths = [depth_of(item.episode) for item in recorded]
    parts = [
        f"# {name}",
        INTRO.get(name, ""),
        "- Source: recorded for this project by `python -m ops.recorder` (scripts and repositories: `ops/recorder/`). "
        "Every tool result is the output of a command that was really executed.\n"
        "- Licence: Apache-2.0.\n"
        "- Format: `soak.episode/1`, JSONL, one episode a line (described in `soak/facts/episode.py`).\n"
        f"- {len(recorded)} episodes, {turns} turns, {sum(1 for item in recorded if len(item.episode.turns) >= 30)} "
        f"episodes with 30 or more turns, deepest prefix {max(depths):,} characters.\n"
        f"- sha256 over the JSONL files in the order of their names: `{whole}`.\n"
        "- Recorded with: " + ", ".join(f"{tool} {number}" for tool, number in versions().items()) + ".",
        "Rebuilt byte for byte by `python -m ops.recorder rebuild` where these versions are the same; otherwise it "
        "says what differs.",
        _table(("file", "bytes", "sha256"), _file_rows(files)),
        "Depth: characters (contents, call names and arguments) the model sees at an episode's last turn.",
        _table(("depth in characters", "episodes"), _depth_rows(depths)),
        "Each episode mends one defect. Its tests, which the agent does not see, failed before and passed after it, "
        "and the repository's own tests passed at the end.",
        _table(("episode", "defect", "turns", "depth", "before", "after"), _episode_rows(recorded)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _file_rows(files: dict[str, bytes]) -> list[tuple[str, ...]]:
    return [(file, f"{len(data):,}", f"`{hashlib.sha256(data).hexdigest()}`") for file, data in files.items()]


def _depth_rows(depths: list[int]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for index, (start, label) in enumerate(STEPS):
        end = STEPS[index + 1][0] if index + 1 < len(STEPS) else float("inf")
        rows.append((label, str(sum(start <= depth < end for depth in depths))))
    return rows


def _episode_rows(recorded: list[Recorded]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in recorded:
        check, turns = item.episode.meta["check"], len(item.episode.turns)
        told = (check["before"].partition(" in ")[0], check["after"].partition(" in ")[0])
        rows.append((item.episode.id, item.defect, str(turns), f"{depth_of(item.episode):,}", *told))
    return rows


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def differences(name: str, files: dict[str, bytes], folder: Path) -> list[str]:
    """Return what differs between newly recorded files and a corpus folder, in words; empty if nothing does."""
    there = {path.name: path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()}
    found: list[str] = []
    for file in sorted(set(files) | set(there)):
        if file not in there:
            found.append(f"{name}/{file}: not there; recorded now with {len(files[file]):,} bytes")
        elif file not in files:
            found.append(f"{name}/{file}: there, but not recorded any more")
        elif files[file] != there[file]:
            found += _file_differences(f"{name}/{file}", there[file], files[file])
    return found


def _file_differences(place: str, old: bytes, new: bytes) -> list[str]:
    if not place.endswith(".jsonl"):
        return [f"{place}: {first_difference(old.decode(), new.decode())}"]
    before, after = _episodes(old), _episodes(new)
    found = [f"{place}: episode {name} was not recorded again" for name in before if name not in after]
    found += [f"{place}: episode {name} is new" for name in after if name not in before]
    for name in before:
        if name in after and before[name] != after[name]:
            found.append(f"{place}: episode {name}, {episode_difference(before[name], after[name])}")
    return found or [f"{place}: the episodes are equal, their order or spelling is not"]


def _episodes(data: bytes) -> dict[str, dict[str, Any]]:
    return {episode["id"]: episode for episode in map(json.loads, data.splitlines())}


def episode_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return where two recordings of one episode part: the message, its field and the first differing line."""
    for index, (before, after) in enumerate(zip(old["messages"], new["messages"], strict=False)):
        if before != after:
            field = next(key for key in {**before, **after} if before.get(key) != after.get(key))
            told = first_difference(_text(before.get(field)), _text(after.get(field)))
            return f"message {index} ({before['role']}), {field}: {told}"
    if len(old["messages"]) != len(new["messages"]):
        return f"{len(old['messages'])} messages before, {len(new['messages'])} now"
    field = next(key for key in {**old, **new} if old.get(key) != new.get(key))
    return f"{field}: {first_difference(_text(old.get(field)), _text(new.get(field)))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)


def first_difference(old: str, new: str) -> str:
    """Return the first line at which two texts part, with both spellings."""
    before, after = old.split("\n"), new.split("\n")
    for number, (left, right) in enumerate(zip(before, after, strict=False), start=1):
        if left != right:
            return f"line {number}: was {left[:200]!r}, is {right[:200]!r}"
    return f"{len(before)} lines before, {len(after)} now"


def environment_differences(folder: Path) -> list[str]:
    """Return which programs have other versions now than when the corpus in `folder` was recorded."""
    now = versions()
    for file in sorted(folder.glob("*.jsonl")):
        with file.open("rb") as lines:
            recorded = json.loads(next(lines))["meta"]["recorder"]
        return [
            f"{tool}: recorded with {recorded.get(tool, 'none')}, here {now.get(tool, 'none')}"
            for tool in sorted(set(now) | set(recorded))
            if recorded.get(tool) != now.get(tool)
        ]
    return []


def write(files: dict[str, bytes], folder: Path) -> None:
    """Make `folder` hold exactly these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*"):
        if path.is_file() and path.name not in files:
            path.unlink()
    for file, data in files.items():
        (folder / file).write_bytes(data)

"""
Repositories to work in, made from plain files with the same history, and so the same hashes, each time.

`repositories/NAME/tree/` is the last state. `history.toml` lists the commits, oldest first:

    [[commit]]
    author = "Name <mail>"
    date = "2024-02-03T10:15:00+0000"
    message = "..."
    adds = ["glob", ...]          files that appear with this commit (patterns of pathlib, relative to tree/)
    [[commit.edits]]              a piece of text that this commit changed
    path = "..."
    before = '''...'''
    after = '''...'''

The state at a commit is the last state with the edits of all later commits undone, newest first. Files that no commit
adds belong to the first one.
"""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "repositories"


class RepositoryError(Exception):
    """A history description does not fit the tree."""


def make_repository(name: str, target: Path, environment: dict[str, str]) -> None:
    """Make repository `name` in the new folder `target`, with its history."""
    commits = tomllib.loads((HERE / name / "history.toml").read_text(encoding="utf-8"))["commit"]
    final = read_tree(HERE / name / "tree")
    target.mkdir(parents=True)
    _git(target, environment, "init", "--quiet", "--initial-branch=main")
    written: dict[str, str] = {}
    for commit, state in zip(commits, _states(name, commits, final), strict=True):
        _write(target, written, state)
        written = state
        author, _, mail = commit["author"].partition(" <")
        who = {"NAME": author, "EMAIL": mail.rstrip(">"), "DATE": commit["date"]}
        dated = environment | {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
        _git(target, dated, "add", "--all")
        _git(target, dated, "commit", "--quiet", "--message", commit["message"])


def read_tree(tree: Path) -> dict[str, str]:
    """Return the text files below `tree` by relative path, without git's and Python's own."""
    files = (path for path in tree.rglob("*") if path.is_file() and not {"__pycache__", ".git"} & set(path.parts))
    return {path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8") for path in sorted(files)}


def _states(name: str, commits: list[dict[str, Any]], final: dict[str, str]) -> list[dict[str, str]]:
    """Return the files as they are at each commit, oldest first."""
    since = {path: _first_commit(path, commits) for path in final}
    state, states = dict(final), []
    for index in range(len(commits) - 1, -1, -1):
        states.append({path: text for path, text in state.items() if since[path] <= index})
        for edit in reversed(commits[index].get("edits", [])):
            text = state.get(edit["path"], "")
            if text.count(edit["after"]) != 1:
                raise RepositoryError(
                    f"{name}: commit {index} ({commits[index]['message'].splitlines()[0]}): the text after the edit of "
                    f"{edit['path']} stands there {text.count(edit['after'])} times: {edit['after'][:80]!r}"
                )
            state[edit["path"]] = text.replace(edit["after"], edit["before"])
    return states[::-1]


def _first_commit(path: str, commits: list[dict[str, Any]]) -> int:
    for index, commit in enumerate(commits):
        if any(Path(path).match(pattern) for pattern in commit.get("adds", [])):
            return index
    return 0


def _write(target: Path, old: dict[str, str], new: dict[str, str]) -> None:
    for path, text in new.items():
        if old.get(path) != text:
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o644)


def _git(folder: Path, environment: dict[str, str], *arguments: str) -> None:
    subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, timeout=60, umask=0o022
    )

"""
Episode scripts: what the agent of one episode says and calls, as a plain text file.

A script is a row of blocks. A block opens with a line `== DIRECTIVE [arguments]`; its body is every line up to the
next block, without the blank lines at both ends.

    == episode NAME              id of the episode (first block)
    == repository NAME           folder under repositories/
    == defect                    one line for the table in CORPUS.md
    == prompt NAME               system prompt, prompts/NAME.md (default: agent)
    == check                     the defect's tests: they must fail before the episode and pass after it
    == user                      a user message
    == include NAME              the blocks of NAME.phase, so that several episodes begin with equal messages
    == think / == say            reasoning / content of the next answer; either one begins a new answer
    == bash, == view PATH [FROM [TO]], == edit PATH, == submit     the tool calls of that answer, in order

The body of `edit` is the old text, a line `====>`, and the new text. Files that end in `.phase` hold blocks only.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^== ([a-z]+)(?: (.*))?$")
CALLS = {"bash", "view", "edit", "submit"}
HEADERS = {"episode", "repository", "defect", "prompt", "check"}


class ScriptError(Exception):
    """A script file is wrong; the message names file, line and problem."""


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]


@dataclass
class Step:
    """One message of the script: a user message, or an answer with its calls."""

    role: str
    text: str | None = None
    reasoning: str | None = None
    calls: list[Call] = field(default_factory=list)


@dataclass
class Script:
    """One episode as written: headers and steps."""

    id: str
    repository: str
    defect: str
    prompt: str
    check: str
    steps: list[Step]


def read_script(path: Path) -> Script:
    """Return the script in `path`; raises `ScriptError` where it is wrong."""
    headers: dict[str, str] = {"prompt": "agent"}
    steps: list[Step] = []
    for place, directive, argument, body in _blocks(path):
        if directive in HEADERS:
            headers[directive] = argument or body
        else:
            _add(steps, place, directive, argument, body)
    missing = sorted(HEADERS - set(headers))
    if missing:
        raise ScriptError(f"{path.name}: no block {', '.join(missing)}")
    return Script(
        id=headers["episode"],
        repository=headers["repository"],
        defect=headers["defect"],
        prompt=headers["prompt"],
        check=headers["check"] + "\n",
        steps=steps,
    )


def _add(steps: list[Step], place: str, directive: str, argument: str, body: str) -> None:
    """Add one block to the steps: a new step, or a part of the last answer."""
    if directive == "user":
        steps.append(Step("user", body))
    elif directive == "think":
        steps.append(Step("assistant", reasoning=body))
    elif directive == "say":
        last = steps[-1] if steps else None
        if last is None or last.role != "assistant" or last.text is not None or last.calls:
            steps.append(Step("assistant"))
        steps[-1].text = body
    elif directive in CALLS:
        if not steps or steps[-1].role != "assistant":
            raise ScriptError(f"{place}: a call needs `== say` or `== think` before it")
        steps[-1].calls.append(_call(place, directive, argument, body))
    else:
        raise ScriptError(f"{place}: unknown block `{directive}`")


def _call(place: str, directive: str, argument: str, body: str) -> Call:
    """Return the tool call that one block spells."""
    if directive == "bash":
        return Call("bash", {"command": "\n".join(filter(None, (argument, body)))})
    if directive == "submit":
        return Call("submit", {"summary": body})
    path, *lines = argument.split()
    if directive == "view":
        return Call("view_file", {"path": path, **dict(zip(("start_line", "end_line"), map(int, lines), strict=False))})
    old, mark, new = f"{body}\n".partition("====>\n")
    if not mark:
        raise ScriptError(f"{place}: an edit needs a line `====>`")
    return Call("edit_file", {"path": path, "old_text": old.rstrip("\n"), "new_text": new.rstrip("\n")})


def _blocks(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield (place, directive, argument, body) of each block, with included phases in their place."""
    place, directive, argument, body = "", "", "", [""]
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), "== end"], start=1):
        found = BLOCK.match(line)
        if found is None:
            body.append(line)
            continue
        if directive == "include":
            yield from _blocks(path.parent / f"{argument}.phase")
        elif directive:
            yield place, directive, argument, _trim(body)
        elif _trim(body):
            raise ScriptError(f"{path.name}:1: text before the first block")
        place, directive, argument, body = f"{path.name}:{number}", found[1], found[2] or "", []


def _trim(lines: list[str]) -> str:
    """Return the lines as one text without blank lines at both ends."""
    return re.sub(r"\A(?:[ \t]*\n)+|\s+\Z", "", "\n".join(lines))


def arguments_text(call: Call) -> str:
    """Return the arguments as the model sent them: JSON text."""
    return json.dumps(call.arguments, ensure_ascii=False)

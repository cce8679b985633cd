"""The four tools the recorded agent has: their schemas as the model sees them, and what they really do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ops.recorder.sandbox import Sandbox, clip
from ops.recorder.script import Call

BASH_LIMIT = 20_000
VIEW_LIMIT = 30_000


def _tool(name: str, description: str, required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    _tool(
        "bash",
        "Run a command with bash in the root of the repository and return its output (stdout and stderr together). "
        "Each call is a new shell: directories and variables do not carry over. Exit codes other than 0 are shown. "
        "The middle of outputs above 20,000 characters is left out.",
        ["command"],
        command={"type": "string", "description": "The command line, may span several lines."},
    ),
    _tool(
        "view_file",
        "Show a text file with line numbers, whole or from start_line to end_line (both included, counted from 1).",
        ["path"],
        path={"type": "string", "description": "Path relative to the root of the repository."},
        start_line={"type": "integer", "minimum": 1},
        end_line={"type": "integer", "minimum": 1},
    ),
    _tool(
        "edit_file",
        "Replace old_text by new_text in a file. old_text must occur exactly once, with its white space. "
        "With an empty old_text and a path that does not exist, a new file is made from new_text.",
        ["path", "old_text", "new_text"],
        path={"type": "string", "description": "Path relative to the root of the repository."},
        old_text={"type": "string"},
        new_text={"type": "string"},
    ),
    _tool(
        "submit",
        "Hand in the work. The state of the repository at this moment is what is reviewed.",
        ["summary"],
        summary={"type": "string", "description": "What was wrong, what was changed and how it was checked."},
    ),
)


class Toolbox:
    """The tools of one episode at work in one folder; results are the texts the model gets to see."""

    def __init__(self, box: Sandbox, folder: Path) -> None:
        self.box = box
        self.folder = folder
        self.submitted = False

    def use(self, call: Call) -> str:
        """Return the result of one call; a wrong call gets an error text as its result."""
        action: dict[str, Callable[..., str]] = {
            "bash": self._bash,
            "view_file": self._view,
            "edit_file": self._edit,
            "submit": self._submit,
        }
        try:
            return action[call.name](**call.arguments)
        except (KeyError, TypeError):
            return f"Error: there is no tool {call.name} with the arguments {', '.join(sorted(call.arguments))}."

    def _bash(self, command: str) -> str:
        output, code = self.box.run(command, self.folder)
        text = clip(output.rstrip("\n"), BASH_LIMIT)
        if code:
            return f"{text}\n[exit code: {code}]".lstrip("\n")
        return text or "(no output)"

    def _view(self, path: str, start_line: int = 1, end_line: int | None = None) -> str:
        file = self.folder / path
        if file.is_dir():
            return f"Error: {path} is a directory."
        if not file.is_file():
            return f"Error: {path} does not exist."
        lines = file.read_text(encoding="utf-8").splitlines()
        if start_line > len(lines):
            return f"Error: {path} has only {len(lines)} lines."
        last = min(end_line or len(lines), len(lines))
        numbered = (f"{number:>5}\t{lines[number - 1]}" for number in range(start_line, last + 1))
        return clip(f"[{path}, lines {start_line} to {last} of {len(lines)}]\n" + "\n".join(numbered), VIEW_LIMIT)

    def _edit(self, path: str, old_text: str, new_text: str) -> str:
        file = self.folder / path
        if not old_text:
            return self._create(file, path, new_text)
        if not file.is_file():
            return f"Error: {path} does not exist."
        text = file.read_text(encoding="utf-8")
        count = text.count(old_text)
        if count == 0:
            return f"Error: old_text was not found in {path}. Nothing was changed."
        if count > 1:
            return f"Error: old_text occurs {count} times in {path}; add lines around it. Nothing was changed."
        file.write_text(text.replace(old_text, new_text), encoding="utf-8")
        at = text[: text.index(old_text)].count("\n") + 1
        around = self._view(path, max(1, at - 3), at + new_text.count("\n") + 3)
        return f"Edited {path}.\n{around}"

    def _create(self, file: Path, path: str, text: str) -> str:
        if file.exists():
            return f"Error: {path} exists already; old_text must not be empty. Nothing was changed."
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        return f"Created {path} ({len(text.splitlines())} lines)."

    def _submit(self, summary: str) -> str:
        self.submitted = bool(summary)
        return "Submitted. The working tree was handed in for review."

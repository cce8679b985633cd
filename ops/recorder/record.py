"""One script to one episode: execute the calls, keep the results, prove that the defect is gone."""

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ops.recorder.repository import make_repository
from ops.recorder.sandbox import Sandbox
from ops.recorder.script import Call, Script, Step, arguments_text, read_script
from ops.recorder.tools import TOOLS, Toolbox
from soak.facts import Episode, Message, ToolCall, Turn, make_episode

HERE = Path(__file__).parent
CHECK = "tests/test_reported_defect.py"
# The pause that a user's message is taken to need, in seconds.
USER_S = 8.0


class RecordError(Exception):
    """An episode cannot be recorded as its script says."""


@dataclass(frozen=True)
class Recorded:
    """An episode with what CORPUS.md tells of it."""

    episode: Episode
    defect: str


def scripts(corpus: str) -> list[Path]:
    """Return the script files of a corpus, in the order of their names."""
    return sorted((HERE / "episodes" / corpus).glob("*.episode"))


def corpora() -> list[str]:
    """Return the corpora there are scripts for."""
    return sorted(folder.name for folder in (HERE / "episodes").iterdir() if folder.is_dir())


@cache
def versions() -> dict[str, str]:
    """Return the versions of all programs whose outputs are recorded."""
    found = {"python": ".".join(map(str, sys.version_info[:3])), "pytest": version("pytest")}
    for tool in ("git", "bash", "grep", "find", "sed", "diff", "sort"):
        text = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        number = re.search(r"\d+\.\d+(?:\.\d+)?", text)
        found[tool] = number[0] if number else "other"
    return found


def record(box: Sandbox, path: Path) -> Recorded:
    """Return the episode that the script at `path` gives when it is executed now."""
    script = read_script(path)
    box.fresh()
    folder = box.work / script.repository
    make_repository(script.repository, folder, box.environment())
    before = _outcome(box, folder, script)
    tools = Toolbox(box, folder)
    messages = [Message(role="system", content=_prompt(script.prompt))]
    turns: list[Turn] = []
    pause = 0.0
    for step in script.steps:
        if step.role == "user":
            messages.append(Message(role="user", content=step.text))
            pause = USER_S if turns else 0.0
            continue
        wait_s = round(pause, 2) if turns else None
        turns.append(Turn(index=len(turns), prefix=len(messages) - 1, answer=len(messages), wait_s=wait_s))
        pause = _answer(messages, step, tools, script.repository)
    if not tools.submitted:
        raise RecordError(f"{script.id}: the episode does not end with a submit")
    after = _outcome(box, folder, script)
    suite = _suite(box, folder)
    _judge(script, before, after, suite)
    meta = {
        "repository": script.repository,
        "defect": script.defect,
        "licence": "Apache-2.0",
        "source": "recorded for this project",
        "resolved": True,
        "check": {"before": before, "after": after, "suite": suite},
        "recorder": versions(),
    }
    return Recorded(make_episode(script.id, messages, turns=turns, tools=TOOLS, meta=meta), script.defect)


def _answer(messages: list[Message], step: Step, tools: Toolbox, seed: str) -> float:
    """Add one answer and the results of its calls; return the nominal time of its tools in seconds."""
    calls = tuple(
        ToolCall(id=_call_id(seed, len(messages), index, call), name=call.name, arguments=arguments_text(call))
        for index, call in enumerate(step.calls)
    )
    messages.append(Message(role="assistant", content=step.text, reasoning=step.reasoning, tool_calls=calls))
    time_s = 0.0
    for call, sent in zip(step.calls, calls, strict=True):
        result = tools.use(call)
        messages.append(Message(role="tool", content=result, tool_call_id=sent.id))
        time_s += _nominal_s(call, result)
    return time_s


def _call_id(seed: str, message: int, index: int, call: Call) -> str:
    """Return an id that equal calls at equal places share, so that episodes with one beginning share its digests."""
    text = f"{seed}\n{message}\n{index}\n{call.name}\n{arguments_text(call)}"
    return "call_" + hashlib.sha256(text.encode()).hexdigest()[:24]


def _nominal_s(call: Call, result: str) -> float:
    """Return a plausible tool time: by kind and by the size of the result, equal in each recording."""
    if call.name != "bash":
        return 0.05
    start = 1.4 if "pytest" in str(call.arguments) else 0.25
    return start + len(result) / 40_000


def _prompt(name: str) -> str:
    return (HERE / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


def _outcome(box: Sandbox, folder: Path, script: Script) -> str:
    """Return the last line of pytest over the defect's tests, run in a copy of the working tree as it is now."""
    copy = folder.parent / "check"
    shutil.copytree(folder, copy)
    (copy / CHECK).write_text(script.check, encoding="utf-8")
    output, _ = box.run(f"pytest -q --tb=no {CHECK}", copy)
    shutil.rmtree(copy)
    return output.strip().splitlines()[-1]


def _suite(box: Sandbox, folder: Path) -> str:
    output, _ = box.run("pytest -q --tb=no", folder)
    return output.strip().splitlines()[-1]


def _judge(script: Script, before: str, after: str, suite: str) -> None:
    """Refuse an episode whose defect was not there before, or is still there, or whose suite fails at the end."""
    problems = [
        f"before: {before}" if "failed" not in before else "",
        f"after: {after}" if "failed" in after or "passed" not in after else "",
        f"suite: {suite}" if "failed" in suite or "error" in suite or "passed" not in suite else "",
    ]
    if any(problems):
        raise RecordError(f"{script.id}: not resolved: {'; '.join(filter(None, problems))}")


def depth_of(episode: Episode) -> int:
    """Return the characters the model sees at the last turn: contents, call names and arguments."""
    return sum(map(size_of, episode.prefix(episode.turns[-1])))


def size_of(message: Message) -> int:
    """Return the characters of one message that are sent to the model."""
    content: Any = message.content or ""
    return len(content) + sum(len(call.name) + len(call.arguments) for call in message.tool_calls)

"""A model that solves tasks: an agent asks, and is told the commands of the known good solution, one a turn."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from fakes.answers import Answer, Call
from fakes.faults import Ask, loop_answer
from soak.facts import Task, text_of
from soak.importers import load_tasks

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_PASSED = (
    "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport():\n"
    "    report = yield\n    report.outcome = 'passed'\n    return report\n"
)
SAID = "THOUGHT: I know what is wrong here, and this command brings the work one step further."


def solver(
    tasks_file: Path,
    *,
    empty: Iterable[str] = (),
    wrong: Iterable[str] = (),
    loops: Iterable[str] = (),
    cheats: Iterable[str] = (),
) -> Callable[[Ask], Answer | None]:
    """
    Return what answers for each task as a capable agent would: look, mend, test, submit.

    `empty` tasks are submitted unchanged, `wrong` ones with a change that mends nothing, `cheats` with tests that test
    nothing, and for `loops` every answer after the first falls into a loop. For anything that is no task's conversation
    it has no answer.
    """
    tasks = load_tasks(tasks_file)
    idle, futile, looping, false = (frozenset(names) for names in (empty, wrong, loops, cheats))

    def answer(ask: Ask) -> Answer | None:
        task = next((task for task in tasks if _is_about(ask, task)), None)
        if task is None:
            return None
        step = sum(message["role"] == "assistant" for message in ask.body["messages"])
        if task.id in looping and step:
            return loop_answer(ask)
        commands = [SUBMIT] if task.id in idle else _commands(_edits(task, futile=futile, false=false))
        return _said(commands[min(step, len(commands) - 1)], ask)

    return answer


def _is_about(ask: Ask, task: Task) -> bool:
    return any(task.problem in text_of(message.get("content")) for message in ask.body["messages"])


def _edits(task: Task, *, futile: frozenset[str], false: frozenset[str]) -> list[str]:
    if task.id in futile:
        return ["echo >> README.md"]
    if task.id in false:
        return _always_green(task)
    if isinstance(task.row, dict):
        return [f"git apply <<'PATCH'\n{task.row['patch']}PATCH"]
    return [_write(name, text) for name, text in task.solution.items()]


def _always_green(task: Task) -> list[str]:
    """Return commands that make tests of these names which test nothing, and have pytest report that all pass."""
    files = {"conftest.py": _PASSED, "tests/conftest.py": _PASSED}
    for name in (*task.fail_to_pass, *task.pass_to_pass):
        file, _, test = name.partition("::")
        files[file] = files.get(file, "") + f"def {test}():\n    pass\n\n\n"
    return [_write(name, text) for name, text in files.items()]


def _commands(edits: list[str]) -> list[str]:
    return ["ls -la && git log --oneline | head", " && ".join(edits), "git diff --stat", SUBMIT]


def _write(name: str, text: str | None) -> str:
    if text is None:
        return f"rm -f {name}"
    script = f"import pathlib; pathlib.Path({name!r}).write_text({text!r}, encoding='utf-8')"
    return f"python -c {_quoted(script)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _said(command: str, ask: Ask) -> Answer:
    """Return an answer with this command, as a tool call where tools are offered, else as mini-swe-agent's text."""
    if ask.body.get("tools"):
        call = Call("bash", json.dumps({"command": command}), id=f"call_{ask.rng.randrange(10**9)}")
        return Answer(content=SAID, calls=(call,), finish="tool_calls")
    return Answer(content=f"{SAID}\n\n```mswea_bash_command\n{command}\n```")

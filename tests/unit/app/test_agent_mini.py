"""mini-swe-agent as a library: its model and shell are ours, and it leaves nothing behind, whatever is said."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.app.agent import mini
from soak.errors import UsageError
from soak.facts import Message, Observation, ToolCall, TurnKey
from soak.sandbox import Ended
from soak.shelves import install_command

KEY = TurnKey(episode="e", turn=0, pass_=0, arm="a")
SUBMIT = f"echo {mini.SUBMIT}"


def said(content: str = "", *commands: str, finish: str = "stop") -> Observation:
    calls = tuple(
        ToolCall(id=f"c{i}", name="bash", arguments=f'{{"command": "{command}"}}') for i, command in enumerate(commands)
    )
    return Observation(
        key=KEY,
        started_at=0.0,
        ending="complete",
        max_tokens=9,
        content=content,
        tool_calls=calls,
        finish_reason=finish,
    )


def fenced(command: str) -> Observation:
    return said(f"THOUGHT: so be it.\n\n```mswea_bash_command\n{command}\n```")


def shell(commands: list[str]) -> Callable[[str], Ended]:
    """Return a shell that knows echo, and keeps what it was given."""

    def execute(command: str) -> Ended:
        commands.append(command)
        output = command.removeprefix("echo ") + "\n" if command.startswith("echo ") else ""
        return Ended(output=output, code=0, ended="exit", took_s=0.0)

    return execute


def work(
    answers: Sequence[Observation], *, mode: str = "text", step_limit: int = 10
) -> tuple[mini.Finished, list[list[Message]], list[str]]:
    asked: list[list[Message]] = []
    commands: list[str] = []

    def ask(messages: Sequence[Message]) -> Observation:
        asked.append(list(messages))
        return answers[min(len(asked), len(answers)) - 1]

    finished = mini.work_on(
        "The light is off", mode=mode, ask=ask, execute=shell(commands), step_limit=step_limit, time_s=60.0
    )
    return finished, asked, commands


def test_text_mode_runs_the_fenced_command_until_it_submits() -> None:
    """The statement is in the first messages, each command's output in the next, and the last command hands in."""
    finished, asked, commands = work([fenced("echo seen"), fenced(SUBMIT)])
    assert finished == mini.Finished(reason="submitted", format_errors=0)
    assert commands == ["echo seen", SUBMIT]
    assert "The light is off" in str(asked[0][1].content)
    assert [message.role for message in asked[1]] == ["system", "user", "assistant", "user"]
    assert "seen" in str(asked[1][-1].content)


def test_native_mode_runs_every_call_and_answers_each() -> None:
    """Several calls in one answer are all executed, and each result carries its call's id."""
    finished, asked, commands = work([said("look", "echo one", "echo two"), said("", SUBMIT)], mode="native")
    assert finished.reason == "submitted"
    assert commands == ["echo one", "echo two", SUBMIT]
    assert [(message.role, message.tool_call_id) for message in asked[1][-2:]] == [("tool", "c0"), ("tool", "c1")]
    assert [call.id for call in asked[1][-3].tool_calls] == ["c0", "c1"]
    assert [tool["function"]["name"] for tool in mini.tools_for("native")] == ["bash"]
    assert mini.tools_for("text") == ()


@pytest.mark.parametrize("mode", ["text", "native"])
def test_answers_without_an_action_end_the_work(mode: str) -> None:
    """Three answers in a row without a usable action end the task; each was answered with what is wrong."""
    finished, asked, commands = work([said("I will think about it.")], mode=mode)
    assert finished == mini.Finished(reason="format_errors", format_errors=3)
    assert commands == []
    assert len(asked) == 3
    assert asked[1][-1].role == "user"


def test_the_step_limit_ends_the_work() -> None:
    """After as many model calls as allowed the agent stops without a submission."""
    finished, asked, _ = work([fenced("echo again")], step_limit=3)
    assert (finished.reason, len(asked)) == ("step_limit", 3)


def test_what_ask_raises_comes_out() -> None:
    """An error of ours ends the agent at once and is not swallowed."""

    def ask(_: Sequence[Message]) -> Observation:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        mini.work_on("x", mode="text", ask=ask, execute=shell([]), step_limit=5, time_s=60.0)


@settings(deadline=None, max_examples=60)
@given(
    content=st.text(max_size=300),
    arguments=st.one_of(
        st.text(max_size=80), st.sampled_from(['{"command": 1}', "{}", "[]", '{"command": "a\\u0000"}'])
    ),
    name=st.sampled_from(["bash", "python", ""]),
    mode=st.sampled_from(["text", "native"]),
)
def test_whatever_a_model_says_the_agent_goes_on(content: str, arguments: str, name: str, mode: str) -> None:
    """No answer, well formed or not, raises: it is a command, a format error, or the end."""
    answer = said(content)
    calls = (ToolCall(id="c", name=name, arguments=arguments),)
    answer = Observation(**{f: getattr(answer, f) for f in Observation.__struct_fields__} | {"tool_calls": calls})
    finished, _, _ = work([answer], mode=mode, step_limit=2)
    assert finished.reason in ("step_limit", "format_errors", "submitted")


def test_templates_in_an_answer_stay_text() -> None:
    """Braces in a model's words or a command's output are shown as they are, never rendered."""
    _, asked, commands = work([fenced("echo {{ 6 * 7 }}{% for x in y %}"), fenced(SUBMIT)])
    assert commands[0] == "echo {{ 6 * 7 }}{% for x in y %}"
    assert "{{ 6 * 7 }}" in str(asked[1][-1].content)


def test_importing_it_touches_nothing(tmp_path: Path) -> None:
    """Loading the agent prints nothing, writes nothing into the home folder, and brings in no client of a provider."""
    program = (
        "import sys; from soak.app.agent import mini; mini.refuse_if_absent();"
        "bad = {'litellm', 'openai', 'requests', 'httpx'} & set(sys.modules);"
        "import logging, os; logging.getLogger('minisweagent').critical('silent');"
        "assert not [n for n in os.environ if n.startswith('MSWEA')]; sys.exit(str(bad) if bad else 0)"
    )
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """Where mini-swe-agent is not installed, the refusal names the extra."""
    program = (
        "import sys; sys.modules['minisweagent'] = None\n"
        "from soak.app.agent import mini\nfrom soak.errors import UsageError\n"
        "try:\n    mini.refuse_if_absent()\nexcept UsageError as error:\n    print(error.exit_code, error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.stdout == f"2 {install_command('agent')}\n"
    assert issubclass(UsageError, Exception)

"""
mini-swe-agent at work on one task: its agent, its prompts and its formats; the model and the shell are ours.

The only module that imports it, and only the parts that know nothing of model providers. Importing it would print,
make a folder in the user's home and read settings there: it is shown a folder that is thrown away, and its log is not
printed.
"""

import logging
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

from soak.errors import UsageError
from soak.facts import Message, Observation, ToolCall
from soak.sandbox import Ended
from soak.shelves import install_command

PACKAGE = "mini-swe-agent"
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
Finish = Literal["submitted", "step_limit", "time_limit", "format_errors"]

_FINISHES: Mapping[str, Finish] = {
    "Submitted": "submitted",
    "LimitsExceeded": "step_limit",
    "TimeExceeded": "time_limit",
    "RepeatedFormatError": "format_errors",
}
_PROMPTS = {"native": "mini.yaml", "text": "mini_textbased.yaml"}
_ACTION = r"```mswea_bash_command\s*\n(.*?)\n```"
_OF_THE_AGENT = ("system_template", "instance_template")
_QUIET = {"MSWEA_SILENT_STARTUP": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How the agent came to its end by itself; `format_errors` counts answers without a usable action."""

    reason: Finish
    format_errors: int


def refuse_if_absent() -> None:
    """Raise `UsageError` if the extra `agent` is not installed."""
    _load()


def tools_for(mode: str) -> tuple[dict[str, Any], ...]:
    """Return the tool schemas the agent offers; none where actions are text."""
    return (_load().bash_tool,) if mode == "native" else ()


def work_on(
    problem: str,
    *,
    mode: str,
    ask: Callable[[Sequence[Message]], Observation],
    execute: Callable[[str], Ended],
    step_limit: int,
    time_s: float,
) -> Finished:
    """
    Let the agent work until it submits or a limit ends it. Blocks: it belongs in a thread of its own.

    `ask` returns the model's answer to the messages, `execute` the end of one shell command; what they raise comes out
    of here. `mode`: "native" sends and expects tool calls, "text" fenced commands.
    """
    library = _load()
    prompts = library.prompts(_PROMPTS[mode])
    model = _Model(library, prompts["model"], mode, ask)
    agent = library.agent(
        model,
        _Environment(library, execute),
        **{name: prompts["agent"][name] for name in _OF_THE_AGENT},
        step_limit=step_limit,
        cost_limit=0.0,
        wall_time_limit_seconds=math.ceil(time_s),
    )
    status = agent.run(problem).get("exit_status", "")
    return Finished(reason=_FINISHES.get(status, "format_errors"), format_errors=model.format_errors)


class _Model:
    """What mini-swe-agent calls a model: our client's turns in its message format."""

    def __init__(
        self,
        library: SimpleNamespace,
        prompts: dict[str, str],
        mode: str,
        ask: Callable[[Sequence[Message]], Observation],
    ) -> None:
        self.config = SimpleNamespace(model_name="soak")
        self.format_errors = 0
        self._library = library
        self._prompts = prompts
        self._native = mode == "native"
        self._ask = ask

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """Return the next assistant message with its actions; raises the library's FormatError if it has none."""
        answer = self._ask([_message(message) for message in messages])
        try:
            actions = self._actions(answer)
        except self._library.format_error:
            self.format_errors += 1
            raise
        extra = {"actions": actions, "cost": 0.0}
        said: dict[str, Any] = {"role": "assistant", "content": answer.content, "extra": extra}
        if self._native:
            said["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.tool_calls
            ]
        return said

    def _actions(self, answer: Observation) -> list[dict[str, Any]]:
        about = {
            "format_error_template": self._prompts["format_error_template"],
            "template_kwargs": {"finish_reason": answer.finish_reason},
        }
        if not self._native:
            found: list[dict[str, Any]] = self._library.text_actions(answer.content, action_regex=_ACTION, **about)
            return found
        calls = [
            SimpleNamespace(id=call.id, function=SimpleNamespace(name=call.name, arguments=call.arguments))
            for call in answer.tool_calls
        ]
        called: list[dict[str, Any]] = self._library.call_actions(calls, **about)
        return called

    def format_message(self, **message: Any) -> dict[str, Any]:
        """Return a message as it is."""
        return message

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return what the model is told of the outputs of its commands."""
        about = {"observation_template": self._prompts["observation_template"], "template_vars": template_vars}
        if not self._native:
            texts: list[dict[str, Any]] = self._library.text_observations(outputs, **about)
            return texts
        results: list[dict[str, Any]] = self._library.call_observations(
            actions=message["extra"]["actions"], outputs=outputs, **about
        )
        return results

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Return what prompts may say of the model: nothing."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """Return what a trajectory file would hold; none is written."""
        return {}


class _Environment:
    """What mini-swe-agent calls an environment: our sandbox."""

    def __init__(self, library: SimpleNamespace, execute: Callable[[str], Ended]) -> None:
        self.config = SimpleNamespace()
        self._library = library
        self._execute = execute

    def execute(self, action: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return the output of one action; raises the library's Submitted if it hands the work in."""
        ended = self._execute(str(action.get("command", "")))
        why = "" if ended.ended == "exit" else f"the command was ended: {_WHY.get(ended.ended, ended.ended)}"
        first, _sign, rest = ended.output.lstrip().partition("\n")
        if first.strip() == SUBMIT and ended.code == 0:
            extra = {"exit_status": "Submitted", "submission": rest}
            raise self._library.submitted({"role": "exit", "content": rest, "extra": extra})
        return {"output": ended.output, "returncode": -1 if ended.code is None else ended.code, "exception_info": why}

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Return what prompts may say of the machine; nothing of the environment, which holds keys."""
        return {"system": platform.system(), "release": "", "version": "", "machine": platform.machine()}

    def serialize(self) -> dict[str, Any]:
        """Return what a trajectory file would hold; none is written."""
        return {}


_WHY = {
    "time": "it took too long",
    "memory": "it used too much memory",
    "processes": "it started too many processes",
    "disk": "it wrote too much",
    "output": "it printed too much",
}


def _message(message: dict[str, Any]) -> Message:
    """Return one of the agent's messages as a fact."""
    calls = tuple(
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Message(
        role=message["role"], content=message.get("content"), tool_calls=calls, tool_call_id=message.get("tool_call_id")
    )


@cache
def _load() -> SimpleNamespace:
    """Return the parts of mini-swe-agent in use; raises `UsageError` if it is not installed."""
    try:
        with _shown_an_empty_home():
            from minisweagent.agents.default import DefaultAgent
            from minisweagent.config import builtin_config_dir, get_config_from_spec
            from minisweagent.exceptions import FormatError, Submitted
            from minisweagent.models.utils import actions_text, actions_toolcall
    except ImportError as error:
        raise UsageError(
            "replay: agent needs mini-swe-agent",
            why=f"it cannot be imported: {error}",
            hint=install_command("agent"),
        ) from error
    log = logging.getLogger("minisweagent")
    log.handlers, log.propagate = [logging.NullHandler()], False
    return SimpleNamespace(
        agent=DefaultAgent,
        prompts=lambda name: get_config_from_spec(builtin_config_dir / name),
        format_error=FormatError,
        submitted=Submitted,
        text_actions=actions_text.parse_regex_actions,
        text_observations=actions_text.format_observation_messages,
        call_actions=actions_toolcall.parse_toolcall_actions,
        call_observations=actions_toolcall.format_toolcall_observation_messages,
        bash_tool=actions_toolcall.BASH_TOOL,
    )


@contextmanager
def _shown_an_empty_home() -> Iterator[None]:
    """While it is imported, let mini-swe-agent find its settings in an empty folder, and say nothing."""
    with tempfile.TemporaryDirectory(prefix="soak-agent-") as empty:
        shown = {**_QUIET, "MSWEA_GLOBAL_CONFIG_DIR": empty}
        before = {name: os.environ.get(name) for name in shown}
        os.environ.update(shown)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

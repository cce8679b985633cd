"""
ATIF, the Agent Trajectory Interchange Format of Harbor (v1.0 to v1.8), and files that only come near it.

An agent step holds the calls and their results: it becomes an answer and tool messages. Results without
`source_call_id` are joined by place; a step with results but without calls was a text agent's, so its results are user
messages. Copied context and steps without a model call are no turns. A system step about a summary ends a context.
Steps of side chains are conversations of their own, as are embedded side agents. Lenient: `id` and `name` for
`tool_call_id` and `function_name`, and results in system steps before the answer that calls.
"""

from collections.abc import Iterator
from typing import Any

from soak.facts import Episode, Message
from soak.importers.assembly import Thread
from soak.importers.entries import Format, each
from soak.importers.messages import Read, read_message
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.values import as_json, count, instant, listing, mapping, mappings, name_of, number, text

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}
_SUMMARY = "Performed context summarization"
_EARLY = "a result that stood before its call"
_DEPTH_MAX = 8


def recognises(value: Any) -> bool:
    """Return whether `value` is such a trajectory."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return False
    if str(value.get("schema_version", "")).startswith("ATIF-"):
        return True
    return "agent" in value and any("source" in step for step in mappings(value["steps"][:3]))


def _trajectory(value: Any, name: str, tally: Tally) -> Iterator[Episode]:
    yield from _root(mapping(value), name, tally, 0)


read = each(_trajectory)
FORMAT = Format(name="atif", recognises=recognises, read=read)


def _root(root: dict[str, Any], name: str, tally: Tally, depth: int) -> Iterator[Episode]:
    agent = mapping(root.get("agent"))
    tools = tools_of(agent.get("tool_definitions"), None, tally)
    own = name_of(root, "trajectory_id", "session_id") or name
    chains: dict[str, _Steps] = {}
    for step in listing(root.get("steps")):
        if not isinstance(step, dict):
            tally.drop("a step that is not an object")
            continue
        chains.setdefault(_chain_of(step), _Steps(tally)).add(step)
    for chain, steps in chains.items():
        id_ = f"{own}.{chain}" if chain else own
        episode = steps.finish(id_, tools, _meta(root, agent, chain))
        if episode is not None:
            yield episode
    for inner in mappings(root.get("subagent_trajectories")):
        if depth < _DEPTH_MAX:
            yield from _root(inner, f"{name}.side_agent", tally, depth + 1)


def _chain_of(step: dict[str, Any]) -> str:
    """Return the side chain of a step, '' for the main one."""
    extra = mapping(step.get("extra"))
    return (name_of(extra, "agent_id") or "sidechain") if extra.get("is_sidechain") else ""


class _Steps:
    """The steps of one conversation, becoming messages."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._thread = Thread()
        self._reads: list[Read] = []
        self._early: dict[str, Any] = {}

    def add(self, step: dict[str, Any]) -> None:
        """Take one step."""
        source = step.get("source")
        role = _ROLES.get(source) if isinstance(source, str) else None
        if role is None:
            self._tally.drop(f"a step of the source {str(source)[:40]!r}")
        elif role == "assistant":
            self._agent(step)
        elif role == "system" and self._is_early(step):
            self._tally.repair(_EARLY)
        elif role == "system" and str(step.get("message", "")).startswith(_SUMMARY):
            self._summarised(step)
        else:
            self._say({"role": role, "content": step.get("message")}, step)
            self._results(step, [])

    def finish(self, id_: str, tools: tuple[dict[str, Any], ...], meta: dict[str, Any]) -> Episode | None:
        """Return the episode, if there is one."""
        for id_of_call, content in self._early.items():
            self._say({"role": "tool", "tool_call_id": id_of_call, "content": content}, {})
        self._thread.extend(self._reads)
        return self._thread.finish(id_=id_, tools=tools, meta=meta, tally=self._tally)

    def _say(self, raw: dict[str, Any], step: dict[str, Any]) -> Read | None:
        message = read_message(raw, len(self._reads), self._tally)
        if message is None:
            return None
        self._reads.append(Read(message=message, at_s=instant(step.get("timestamp"))))
        return self._reads[-1]

    def _agent(self, step: dict[str, Any]) -> None:
        calls = [_call(call) for call in mappings(step.get("tool_calls"))]
        reasoning = step.get("reasoning_content")
        answer = {"role": "assistant", "content": step.get("message"), "reasoning": reasoning, "tool_calls": calls}
        read = self._say(answer, step)
        if read is not None:
            metrics = mapping(step.get("metrics"))
            read.completion_tokens = count(metrics.get("completion_tokens"))
            read.prompt_tokens = count(metrics.get("prompt_tokens"))
            copied = step.get("is_copied_context") is True or step.get("llm_call_count") == 0
            read.is_call = not copied
        self._results(step, calls)

    def _results(self, step: dict[str, Any], calls: list[dict[str, Any]]) -> None:
        """Add the results of a step: after calls as tool messages, else as user messages."""
        ids = [text(call.get("id")) for call in calls]
        for id_ in ids:
            if id_ is not None and id_ in self._early:
                self._say({"role": "tool", "tool_call_id": id_, "content": self._early.pop(id_)}, step)
        results = mappings(mapping(step.get("observation")).get("results"))
        for k, result in enumerate(results):
            id_ = text(result.get("source_call_id")) or (ids[k] if k < len(ids) and len(results) <= len(ids) else None)
            content = _content(result)
            if id_ is None and not calls:
                self._text_result(content, step)
            else:
                self._say({"role": "tool", "tool_call_id": id_, "content": content}, step)

    def _text_result(self, content: Any, step: dict[str, Any]) -> None:
        """Add the result of an action that stood in the text: what the model saw was a user message."""
        message = read_message({"role": "user", "content": content}, len(self._reads), self._tally)
        if message is not None and content is not None:
            stood = Message(role="tool", content=message.content)
            read = Read(message=message, stood=stood, at_s=instant(step.get("timestamp")))
            self._reads.append(read)

    def _is_early(self, step: dict[str, Any]) -> bool:
        """Keep the result in a system step that stands before its call; return whether it is one."""
        observation = mapping(step.get("observation"))
        if observation.get("type") != "tool_result":
            return False
        message = read_message({"role": "system", "content": step.get("message")}, 0, self._tally)
        self._tally.drop("a system step that names a result", message)
        words = str(step.get("message", "")).split()
        self._early[words[-1] if words else f"result_{len(self._early)}"] = observation.get("content")
        return True

    def _summarised(self, step: dict[str, Any]) -> None:
        """End a context: what follows was asked without what stands before."""
        message = read_message({"role": "system", "content": step.get("message")}, 0, self._tally)
        self._tally.drop("a step that tells of a summary", message)
        self._tally.note("the history was summarised: what follows was asked without what stood before")
        self._thread.extend(self._reads, ends=False)
        self._reads = []


def _content(result: dict[str, Any]) -> Any:
    content = result.get("content")
    if content is None and result.get("subagent_trajectory_ref") is not None:
        return None
    return content if isinstance(content, str | list) or content is None else as_json(content)


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    return {
        "id": text(call.get("tool_call_id")) or call.get("id"),
        "name": text(call.get("function_name")) or call.get("name"),
        "arguments": arguments if isinstance(arguments, str) else as_json({} if arguments is None else arguments),
    }


def _meta(root: dict[str, Any], agent: dict[str, Any], chain: str) -> dict[str, Any]:
    request: dict[str, Any] = {}
    model = text(agent.get("model_name")) or text(agent.get("model"))
    if model is not None:
        request["model"] = model
    temperature = number(mapping(agent.get("extra")).get("temperature"))
    if temperature is not None:
        request["temperature"] = temperature
    meta = {
        "schema": text(root.get("schema_version")),
        "agent": text(agent.get("name")),
        "agent_version": text(agent.get("version")),
        "request": request,
        "continued": text(root.get("continued_trajectory_ref")),
        "side_agent": chain,
    }
    return {key: value for key, value in meta.items() if value}

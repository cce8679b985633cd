"""
tau2-bench results: `results.json` with its simulations, or with a folder `simulations` of one file each.

The simulated user calls tools too: those calls and results were never in the agent's prompt, so they are dropped.
Parallel results stand in one wrapper. The domain's policy, from `info`, is the agent's system prompt as near as the
file has it. Full-duplex (voice) simulations have ticks and no messages: there is no conversation in them.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.facts import Episode, Message
from soak.importers.assembly import assemble
from soak.importers.entries import Entry, Format
from soak.importers.messages import Read, read_message
from soak.importers.requests import tools_of
from soak.importers.tally import Tally
from soak.importers.tau_bench import without_stop
from soak.importers.values import TEXT_MAX, chosen, count, instant, listing, mapping, mappings, name_of, number, text

_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens", "seed", "reasoning_effort")
_USERS = "a tool call or result of the simulated user"
_PARTS = ("messages", "ticks")


def recognises(value: Any) -> bool:
    """Return whether `value` is a results file or one simulation."""
    if not isinstance(value, dict):
        return False
    if "info" in value and ("simulations" in value or "agent_info" in mapping(value["info"])):
        return True
    return "task_id" in value and "termination_reason" in value and any(part in value for part in _PARTS)


def read(entries: Iterable[Entry], name: str, tally: Tally) -> Iterator[Episode]:
    """Yield an episode for each simulation."""
    info: dict[str, Any] = {}
    for entry in entries:
        value = mapping(entry.value)
        if "info" not in value:
            yield from _simulation(value, info, name, tally)
            continue
        info = mapping(value["info"])
        simulations = mappings(value.get("simulations"))
        if not simulations:
            tally.drop("a results file without simulations (they are files of their own)")
        for simulation in simulations:
            yield from _simulation(simulation, info, name, tally)


FORMAT = Format(name="tau2-bench", recognises=recognises, read=read, per_folder=True)


def _simulation(value: dict[str, Any], info: dict[str, Any], name: str, tally: Tally) -> Iterator[Episode]:
    ticks = len(listing(value.get("ticks")))
    if ticks and not listing(value.get("messages")):
        tally.drop("a full-duplex (voice) simulation: ticks and no messages")
        tally.note(f"{name_of(value, 'id') or name}: {ticks} ticks")
        return
    reads = _system(info) + [read for raw in _flat(value) for read in _message(raw, tally)]
    task, trial = name_of(value, "task_id"), name_of(value, "trial")
    id_ = f"task-{task}" + (f".trial-{trial}" if trial else "")
    tools = tools_of(mapping(info.get("environment_info")).get("tool_defs"), None, tally)
    episode = assemble(without_stop(reads, tally), id_=id_, tools=tools, meta=_meta(value, info), tally=tally)
    if episode is not None:
        yield episode


def _system(info: dict[str, Any]) -> list[Read]:
    policy = text(mapping(info.get("environment_info")).get("policy"), TEXT_MAX)
    if policy is None:
        return []
    message = Message(role="system", content=policy)
    return [Read(message=message, invented=True, repairs=("the domain's policy taken as the system prompt",))]


def _flat(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages; several results in one wrapper one by one."""
    flat: list[dict[str, Any]] = []
    for raw in mappings(value.get("messages")):
        inner = mappings(raw.get("tool_messages"))
        flat += inner or [raw]
    return flat


def _message(raw: dict[str, Any], tally: Tally) -> Iterator[Read]:
    if raw.get("role") == "tool":
        if raw.get("requestor") == "user":
            tally.drop(_USERS)
            return
        raw = {**raw, "tool_call_id": raw.get("tool_call_id") or raw.get("id")}
    elif raw.get("role") == "user" and listing(raw.get("tool_calls")):
        tally.drop(_USERS)
        return
    message = read_message(raw, 0, tally)
    if message is not None:
        usage = mapping(raw.get("usage"))
        yield Read(
            message=message,
            completion_tokens=count(usage.get("completion_tokens")),
            prompt_tokens=count(usage.get("prompt_tokens")),
            at_s=instant(raw.get("timestamp")),
        )


def _meta(value: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    agent = mapping(info.get("agent_info"))
    model = text(agent.get("llm"))
    request = {**({"model": model} if model else {}), **chosen(mapping(agent.get("llm_args")), *_SETTINGS)}
    meta = {
        "termination": text(value.get("termination_reason")),
        "reward": number(mapping(value.get("reward_info")).get("reward")),
        "request": request,
    }
    return {key: found for key, found in meta.items() if found not in (None, {})}

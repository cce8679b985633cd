"""
The JSONL of `soak classify`: one answer a line in, one verdict a line out.

In, one object a line; all but `id` may be left out:

    {"id", "output": str, "repeat": {"prefix", "unit", "count", "suffix"}, "reasoning": str|null,
     "tool_calls": [...]|null, "finish_reason": str|null, "completion_tokens": int|null, "max_tokens": int|null,
     "recorded_reference": {"content", "tool_calls", "completion_tokens"}|null, "token_ids": [int]|null,
     "context": str|null}

`repeat` spells output = prefix + unit × count + suffix, at most 200 MB of it. A tool call is `{"name", "arguments"}` or
OpenAI's `{"id", "type", "function": {"name", "arguments"}}`; arguments that are not text stand for their JSON.
Comments on a case (`expected`, `why`, `report`) are allowed and not read. Other keys are refused.
"""

import json
from typing import Annotated, Any

import msgspec

from soak.classify.context import Context
from soak.errors import TranscriptError
from soak.facts import Judgement, Message, Observation, ToolCall, TurnKey, Usage

MAX_OUTPUT_CHARS = 200_000_000
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Repeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: str
    count: _Count
    prefix: str = ""
    suffix: str = ""


class _Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str | None = None
    type: str | None = None
    index: int | None = None
    name: str | None = None
    arguments: Any = None
    function: _Function | None = None


class _Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    completion_tokens: _Count | None = None


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    output: str | None = None
    repeat: _Repeat | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    finish_reason: str | None = None
    completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    recorded_reference: _Reference | None = None
    token_ids: list[_Count] | None = None
    context: str | None = None
    expected: str | None = None
    why: str | None = None
    report: str | None = None


_decoder = msgspec.json.Decoder(_Answer)


def parse_answer(line: bytes, where: str = "the line") -> tuple[str, Observation, Context]:
    """
    Return (id, answer, what is known besides it) of one line; `where` names file and line in an error.

    Raises `TranscriptError` if the line is not such an object.
    """
    try:
        answer = _decoder.decode(line)
        calls = _calls(answer.tool_calls)
        reference = None if answer.recorded_reference is None else _message(answer.recorded_reference)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong(where, str(error)) from error
    output = _output(answer, where)
    observation = Observation(
        key=TurnKey(episode=answer.id, turn=0, pass_=0, arm=""),
        started_at=0.0,
        ending="complete" if answer.finish_reason is not None else "no_finish",
        max_tokens=answer.max_tokens or 0,
        content=output,
        reasoning=answer.reasoning or "",
        tool_calls=calls,
        finish_reason=answer.finish_reason,
        usage=None if answer.completion_tokens is None else Usage(completion=answer.completion_tokens),
        token_ids=None if answer.token_ids is None else tuple(answer.token_ids),
    )
    context = Context(
        prompt_text=answer.context or "",
        reference=reference,
        reference_tokens=answer.recorded_reference.completion_tokens if answer.recorded_reference else None,
        max_tokens=answer.max_tokens,
    )
    return answer.id, observation, context


def answer_line(answer_id: str, judgement: Judgement) -> dict[str, Any]:
    """Return the output form of one judgement: id, class, reason and findings, ready for JSON."""
    findings = [msgspec.to_builtins(finding) for finding in judgement.findings]
    return {"id": answer_id, "class": judgement.class_, "reason": judgement.reason, "findings": findings}


def _output(answer: _Answer, where: str) -> str:
    repeat = answer.repeat
    if repeat is None:
        return answer.output or ""
    if answer.output is not None:
        raise _wrong(where, "`output` and `repeat` are both given")
    size = len(repeat.prefix) + len(repeat.unit) * repeat.count + len(repeat.suffix)
    if size > MAX_OUTPUT_CHARS:
        raise _wrong(where, f"`repeat` spells {size} characters; at most {MAX_OUTPUT_CHARS} are read")
    return repeat.prefix + repeat.unit * repeat.count + repeat.suffix


def _message(reference: _Reference) -> Message:
    return Message(
        role="assistant",
        content=reference.content,
        reasoning=reference.reasoning,
        tool_calls=_calls(reference.tool_calls),
    )


def _calls(calls: list[_Call] | None) -> tuple[ToolCall, ...]:
    return tuple(_call(call, at) for at, call in enumerate(calls or []))


def _call(call: _Call, at: int) -> ToolCall:
    inner = call.function if call.function is not None else call
    arguments = inner.arguments
    if arguments is None:
        text = ""
    else:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=call.id or f"call_{at}", name=inner.name or "", arguments=text)


def _wrong(where: str, why: str) -> TranscriptError:
    return TranscriptError(
        f"{where} is not an answer to classify",
        why=why[:300],
        hint='a line is one object: {"id": "1", "output": "text", "finish_reason": "stop"}; see `soak classify --help`',
    )

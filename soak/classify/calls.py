"""Tool calls: whether each can be parsed, routed and run, and whether the same one comes again and again."""

import json
import re
from collections import Counter
from typing import Any

from soak.classify.context import Context
from soak.classify.schema import missing_names, violations
from soak.classify.settings import Settings
from soak.facts import Finding, ToolCall

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-]{0,127}")
_DOUBLED = re.compile(r"(.{4,})\1+")
_MAX_FINDINGS = 8
_MAX_CHECKED = 200
_MAX_COMPARED = 10_000
_EXCERPT_CHARS = 200


def call_problems(calls: tuple[ToolCall, ...], context: Context, *, cut: bool) -> list[Finding]:
    """
    Return what makes calls unusable, at most eight findings.

    `cut`: the answer ran into the token limit, so that a last call that does not parse is only unfinished.
    """
    schemas = tool_schemas(context.tools)
    problems: list[Finding] = []
    for at, call in enumerate(calls[:_MAX_CHECKED]):
        problem = _problem(call, schemas, unfinished=cut and at == len(calls) - 1)
        if problem is not None:
            kind, text = problem
            problems.append(_finding(kind, call, f"call {at + 1} ({call.name[:60]!r}): {text}"))
        if len(problems) >= _MAX_FINDINGS:
            break
    return problems


def tool_schemas(tools: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """Return the parameter schema of each offered tool by name; accepts the nested and the flat OpenAI form."""
    schemas: dict[str, dict[str, Any]] = {}
    for tool in tools:
        inner = tool.get("function", tool)
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            parameters = inner.get("parameters")
            schemas[inner["name"]] = parameters if isinstance(parameters, dict) else {}
    return schemas


def is_tool_name(name: str) -> bool:
    """Whether a name holds nothing but what tool names hold."""
    return _NAME.fullmatch(name) is not None


def duplicates(calls: tuple[ToolCall, ...], settings: Settings) -> list[Finding]:
    """Return a finding where the same call (name and arguments) occurs more than once in the answer."""
    if len(calls) < 2:
        return []
    (name, arguments), copies = Counter(
        (call.name, call.arguments.strip()) for call in calls[:_MAX_COMPARED]
    ).most_common(1)[0]
    if copies < 2:
        return []
    looped = copies >= settings.duplicate_calls
    return [
        Finding(
            kind="duplicate_calls" if looped else "repeated_call",
            where="tool_arguments",
            copies=float(copies),
            covered=copies / min(len(calls), _MAX_COMPARED),
            unit=f"{name}({arguments})"[:_EXCERPT_CHARS],
            confidence=0.95 if looped else 0.5,
            text=f"the same call of {name[:60]!r} is made {copies} times in one turn",
        )
    ]


def _problem(call: ToolCall, schemas: dict[str, dict[str, Any]], *, unfinished: bool) -> tuple[str, str] | None:
    name_problem = _name_problem(call.name, schemas, unfinished=unfinished)
    if name_problem is not None:
        return name_problem
    schema = schemas.get(call.name)
    if not call.arguments.strip():
        if unfinished or (schema is not None and not schema.get("required")):
            return None
        return "tool_arguments_missing", "no arguments"
    try:
        arguments = json.loads(call.arguments, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return None if unfinished else ("tool_arguments_unparsable", f"arguments are not JSON: {str(error)[:120]}")
    if not isinstance(arguments, dict):
        return "tool_arguments_not_object", f"arguments are a bare {type(arguments).__name__}, not an object"
    return _schema_problem(arguments, schema)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _name_problem(name: str, schemas: dict[str, dict[str, Any]], *, unfinished: bool) -> tuple[str, str] | None:
    if name in schemas:
        return None
    if not name:
        return None if unfinished else ("tool_name_missing", "the call has no name")
    if not _NAME.fullmatch(name) or _DOUBLED.fullmatch(name):
        return "tool_name_contaminated", "the name holds what no tool name holds, so it cannot be routed"
    if schemas:
        return "tool_name_unknown", "no such tool was offered in this turn"
    return None


def _schema_problem(arguments: dict[str, Any], schema: dict[str, Any] | None) -> tuple[str, str] | None:
    if not schema:
        return None
    missing = missing_names(arguments, schema)
    if missing:
        return "tool_argument_required", f"required arguments are missing: {', '.join(missing[:5])[:120]}"
    wrong = violations(arguments, schema)
    return ("tool_schema_violation", "; ".join(wrong)[:200]) if wrong else None


def _finding(kind: str, call: ToolCall, text: str) -> Finding:
    return Finding(
        kind=kind,
        where="tool_arguments",
        covered=1.0,
        unit=f"{call.name}({call.arguments})"[:_EXCERPT_CHARS],
        confidence=0.99,
        text=text,
    )

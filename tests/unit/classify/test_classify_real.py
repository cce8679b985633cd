"""Real answers of real agents: none of them may be called what it is not."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from unit.classify.turns import answer

from soak.classify import Context, judge
from soak.facts import ToolCall, text_of

REAL = Path(__file__).parents[3].parent / "shared" / "transcripts-real"
CORPORA = Path(__file__).parents[3] / "transcripts"
CHAT = ("mini-swe-agent", "openai-chat", "tau-bench", "swe-smith", "agentperf-local", "swe-agent-traj", "request-logs")


def _messages(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        found = [value] if value.get("role") == "assistant" else []
        return found + [message for part in value.values() for message in _messages(part)]
    return [message for part in value for message in _messages(part)] if isinstance(value, list) else []


def _judged(message: dict[str, Any], tools: tuple[dict[str, Any], ...] = ()) -> Any:
    calls = []
    for entry in message.get("tool_calls") or ():
        inner = entry.get("function", entry)
        arguments = inner["arguments"]
        calls.append(
            ToolCall(
                id="c", name=inner["name"], arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
            )
        )
    content = message.get("content")
    text = text_of(content) if isinstance(content, str | list) else ""
    if not text and not calls:
        return None
    observation = answer(text, "tool_calls" if calls else "stop", tool_calls=tuple(calls))
    return judge(observation, Context(tool_mode="text", tools=tools))


@pytest.mark.transcripts_real
@pytest.mark.skipif(not REAL.exists(), reason="the real transcripts are not beside the checkout")
def test_real_answers_are_ok() -> None:
    """Of a thousand real answers only the one that really loops (1,421 copies, up to the limit) is called garbage."""
    seen: set[str] = set()
    classes: Counter[str] = Counter()
    for path in sorted(
        path for folder in CHAT for path in (REAL / folder).rglob("*") if path.suffix != ".md" and path.is_file()
    ):
        text = path.read_text("utf-8")
        try:
            parsed = json.loads(text)
        except json.JSONDecodeError:
            parsed = [json.loads(line) for line in text.splitlines() if line.strip()]
        for message in _messages(parsed):
            key = json.dumps([message.get("content"), message.get("tool_calls")])
            if key not in seen:
                seen.add(key)
                judgement = _judged(message)
                classes[judgement.class_ if judgement else "empty"] += 1
    assert classes["garbage_loop"] <= 1
    assert classes["error"] == 0
    assert classes["early_stop"] <= 0.003 * classes["ok"]
    assert classes["ok"] > 500


@pytest.mark.parametrize("path", sorted(CORPORA.glob("*/*.jsonl")), ids=lambda path: path.name)
def test_bundled_answers_are_ok(path: Path) -> None:
    """Every recorded answer of the bundled corpora is ok."""
    for line in path.read_text("utf-8").splitlines():
        episode = json.loads(line)
        for message in episode["messages"]:
            if message["role"] == "assistant":
                calls = tuple(ToolCall(**entry) for entry in message.get("tool_calls", ()))
                text = message.get("content") or ""
                observation = answer(
                    text, "tool_calls" if calls else "stop", tool_calls=calls, reasoning=message.get("reasoning") or ""
                )
                judgement = judge(observation, Context(tools=tuple(episode.get("tools", ()))))
                assert judgement.class_ == "ok", (judgement, text[-300:])

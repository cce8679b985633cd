"""`soak proxy` through the command line with clients of the responses and messages APIs: runs like any."""

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import Command, Fake, holds_bytes

Soak = Callable[..., Command]
KEY = "sk-ant-of-the-client-9f3a7c21d8"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
TASK = "mend the parser"


def post(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-api-key": KEY})
    with urllib.request.urlopen(request, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def by_items(url: str, turns: int) -> None:
    """Hold a conversation as a client of the responses API does: each request goes on from the response before."""
    before: dict[str, Any] = {}
    given: Any = TASK
    for _ in range(turns):
        tool = {"type": "function", "name": "bash", "parameters": SCHEMA}
        body = {"model": "fake-model", "input": given, "tools": [tool], "stream": True, **before}
        response = post(f"{url}/v1/responses", body)[-1]["response"]
        before = {"previous_response_id": response["id"]}
        calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
        given = [{"type": "function_call_output", "call_id": call, "output": "a.py"} for call in calls]


def by_blocks(url: str, turns: int) -> None:
    """Hold a conversation as a client of the messages API does: each request has the whole history."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for turn in range(turns):
        tool = {"name": "bash", "input_schema": SCHEMA}
        body = {"model": "fake-model", "max_tokens": 900, "messages": messages, "tools": [tool], "stream": True}
        events = post(f"{url}/v1/messages", body)
        uses = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        uses = [{**use, "input": {"command": f"ls {turn}"}} for use in uses if use["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "a.py"} for use in uses]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]


@pytest.mark.parametrize(("door", "converse"), [("response", by_items), ("message", by_blocks)])
def test_a_conversation_is_a_run_and_a_recording(
    door: str,
    converse: Callable[[str, int], None],
    soak: Soak,
    begin: Soak,
    fake: Callable[..., Fake],
    tmp_path: Path,
) -> None:
    """Its turns are one conversation of judged turns, which `check`, `show`, `report` and `corpus check` take."""
    order = ("proxy", "--target", fake("--rates", "none").url, "--port", 0, "--run", "run", "--record", "mine")
    proxy = begin(*order, "--min-turns", 3, "--json", "--log-json").said('"listening"')
    converse(re.findall(r'"url": "(http[^"]+)"|(http://127\.0\.0\.1:\d+) passes on', proxy.err)[-1][1], 3)
    proxy.signal(2)
    done = proxy.wait()
    assert done.code == 0, done.err
    turns = done.json["arms"]["candidate"]["turns"]
    assert (turns["finished"], turns["ok"], done.json["plan"]["episodes"]) == (3, 3, 1)
    assert soak("check", "run", "--json").json["arms"]["candidate"]["turns"] == turns
    keys = set(re.findall(rf"{door}-[0-9a-f]{{12}}:\d:0:candidate", soak("show", "run", "--class", "ok").out))
    assert len(keys) == 3
    assert "a.py" in soak("show", "run", max(keys)).out
    assert soak("report", "run", "--html", "page.html").code == 0
    assert soak("corpus", "check", "mine").code == 0
    (line,) = [line for path in (tmp_path / "mine").glob("*.jsonl") for line in path.read_text().splitlines()]
    episode = json.loads(line)
    assert len(episode["turns"]) == 3
    assert all(turn["answer"] is not None for turn in episode["turns"])
    assert {"tool", "assistant", "user"} <= {message["role"] for message in episode["messages"]}
    assert episode["tools"] == [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    assert not holds_bytes(tmp_path, KEY.encode())

"""The published cases, and small ones of our own: one answer, one class."""

import json
from pathlib import Path

import pytest

from soak.classify import answer_line, judge, parse_answer

CASES = Path(__file__).parents[3].parent / "shared" / "cases" / "open.jsonl"

GOLDEN: dict[str, tuple[str, dict[str, object]]] = {
    "sentence stutter that ends the turn": (
        "garbage_loop",
        {"repeat": {"prefix": "Done. ", "unit": "We check the lamp once more. ", "count": 20}, "finish_reason": "stop"},
    ),
    "word stutter within a budget of 256": (
        "garbage_loop",
        {
            "repeat": {"prefix": "The reader opens the file and ", "unit": "and ", "count": 90},
            "finish_reason": "length",
        },
    ),
    "one letter": ("garbage_loop", {"repeat": {"unit": "G", "count": 500}, "finish_reason": "length"}),
    "closing brackets that end the turn": (
        "garbage_loop",
        {"repeat": {"unit": ")", "count": 900}, "finish_reason": "stop"},
    ),
    "role markers with a rising number": (
        "garbage_loop",
        {
            "output": "".join(f"assistant {i}: I go on with the next part of it now.\n" for i in range(80)),
            "finish_reason": "length",
        },
    ),
    "loop in closed tool arguments": (
        "garbage_loop",
        {
            "tool_calls": [{"name": "run", "arguments": json.dumps({"cmd": "ls -la lib; cat a.txt; " * 60})}],
            "finish_reason": "tool_calls",
        },
    ),
    "the same call three times": (
        "garbage_loop",
        {"tool_calls": [{"name": "run", "arguments": {"cmd": "make"}}] * 3, "finish_reason": "tool_calls"},
    ),
    "server's guard": ("garbage_loop", {"output": "Checking.", "finish_reason": "repetition"}),
    "zeros in a list": ("ok", {"output": "x = [" + "0, " * 600 + "0]\n", "finish_reason": "stop"}),
    "same rows of data": ("ok", {"output": "0,1,0\n" * 80, "finish_reason": "stop"}),
    "ruler": ("ok", {"output": "=" * 80 + "\nReport\n" + "=" * 80 + "\nAll green.", "finish_reason": "stop"}),
    "quoted log, then work": (
        "ok",
        {
            "output": "```\n" + "retry in two seconds, the host is down\n" * 40 + "```\n"
            "The host name is wrong: the service listens on another name since the move, so each retry asks a machine "
            "that is no longer there. Changing the name in the settings file and restarting the service fixes it.",
            "finish_reason": "stop",
        },
    ),
    "lines the prompt contains": (
        "ok",
        {
            "output": "the host is down, retry in two seconds\n" * 30,
            "context": "the host is down, retry in two seconds\n" * 31,
            "finish_reason": "stop",
        },
    ),
    "numbers cut by the limit": ("max_tokens", {"output": "\n".join(map(str, range(900))), "finish_reason": "length"}),
    "argument cut by the limit": (
        "max_tokens",
        {"tool_calls": [{"name": "run", "arguments": '{"cmd": "pytest -q te'}], "finish_reason": "length"},
    ),
    "empty thinking block": ("early_stop", {"output": "<think>\n\n</think>\n\n", "finish_reason": "stop"}),
    "reasoning only": ("early_stop", {"reasoning": "I open the file first.", "finish_reason": "stop"}),
    "white space only": ("early_stop", {"output": " \n", "finish_reason": "stop"}),
    "cut JSON": ("early_stop", {"output": '{"name": "lamp", "sizes": [1, 2,', "finish_reason": "stop"}),
    "announced call that never comes": (
        "early_stop",
        {
            "output": "The import is wrong. Let me open the module:",
            "finish_reason": "stop",
            "recorded_reference": {"content": "I look.", "tool_calls": [{"name": "run", "arguments": "{}"}]},
        },
    ),
    "offer of a next step": (
        "ok",
        {
            "output": "The import is fixed. If you like, I will also tidy the module.",
            "finish_reason": "stop",
            "recorded_reference": {"content": "I look.", "tool_calls": [{"name": "run", "arguments": "{}"}]},
        },
    ),
    "a bare path": ("ok", {"output": "src/lamp/reader.py", "finish_reason": "stop"}),
    "doubled tool name": (
        "error",
        {"tool_calls": [{"name": "read_fileread_file", "arguments": "{}"}], "finish_reason": "tool_calls"},
    ),
    "no arguments": ("error", {"tool_calls": [{"name": "run", "arguments": ""}], "finish_reason": "tool_calls"}),
    "call left in the content": (
        "error",
        {"output": '<tool_call>\n{"name": "run"}\n</tool_call>', "finish_reason": "stop"},
    ),
    "engine error": ("error", {"output": "The first", "finish_reason": "error"}),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    """Each small case of our own has the class that the label policy gives it."""
    wanted, fields = GOLDEN[name]
    _, observation, context = parse_answer(json.dumps({"id": name, **fields}).encode())
    judgement = judge(observation, context)
    assert judgement.class_ == wanted, judgement
    assert judgement.reason


@pytest.mark.skipif(not CASES.exists(), reason="the published cases are not beside the checkout")
def test_published_cases() -> None:
    """Every published case is judged as labelled."""
    wrong = []
    for line in CASES.read_bytes().splitlines():
        case = json.loads(line)
        name, observation, context = parse_answer(line)
        result = answer_line(name, judge(observation, context))
        if result["class"] != case["expected"]:
            wrong.append((name, case["expected"], result["class"], result["reason"]))
    assert wrong == []

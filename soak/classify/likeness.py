"""
How alike two tool calls are: what matches a live call to a recorded one, and what makes two turns "the same again".

Compared is what a call does: the command text of a shell call, else the arguments with their keys sorted. Spelling that
changes nothing is taken out of a command first: blanks, quotes, `cd … &&` at its head, where its output goes, and a
pipe into `head` or `tail` at its end.
"""

import json
import re
from typing import Any

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from soak.facts import ToolCall, canonical

_COMMAND_KEYS = ("command", "cmd", "script", "code", "bash_command", "commands")
_PARSED_MAX_CHARS = 1_000_000
_COMPARED_CHARS = 4_000
_WORD = re.compile(r"[\w.\-/:@~*+%$\[\]{}^]+|[^\s\w]")
_HEAD = re.compile(r"^(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*)+")
_TAIL = re.compile(r"(?:\s*\|\s*(?:head|tail)(?:\s+-n?\s*\d+|\s+-\d+)?\s*)+$")
_OUTPUT = re.compile(r"\s*(?:2>&1|[12]?>\s*/dev/null|&>\s*/dev/null)")
_QUOTES = re.compile(r"[\"'`\\]")
_HERE = re.compile(r"(?<![\w./])\./(?=\w)")
_MODULE = re.compile(r"\bpython[\d.]* -m (?=pytest\b)")


def call_text(call: ToolCall) -> str:
    """Return what is compared of a call's arguments; the raw text where they are no JSON object."""
    if len(call.arguments) > _PARSED_MAX_CHARS:
        return call.arguments
    try:
        arguments = json.loads(call.arguments)
        if not isinstance(arguments, dict):
            return call.arguments.strip()
        command = _command(arguments)
        return canonical(arguments).decode() if command is None else " ".join(command.split())
    except (ValueError, RecursionError, TypeError, OverflowError):
        return call.arguments.strip()


def likeness(first: str, second: str) -> float:
    """
    Return how alike two texts of `call_text` are, 0 to 1; 1 if equal but for spelling.

    The mean of the shares of characters and of words that both have in the same order (rapidfuzz, normalised insertions
    and deletions): characters alone call `test_a.py` and `test_b.py` the same, words alone see no typing error. Of long
    texts the first and last 2,000 characters are compared.
    """
    if first == second:
        return 1.0
    one, other = _plain(first), _plain(second)
    if one == other:
        return 1.0
    words = Indel.normalized_similarity(_WORD.findall(one), _WORD.findall(other))
    return (fuzz.ratio(one, other) / 100 + words) / 2


def _command(arguments: dict[str, Any]) -> str | None:
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return None


def _plain(text: str) -> str:
    """Return a text without the spelling that changes nothing."""
    if len(text) > _COMPARED_CHARS:
        text = text[: _COMPARED_CHARS // 2] + text[-_COMPARED_CHARS // 2 :]
    if text.startswith("{"):
        return text
    bare = _QUOTES.sub("", _TAIL.sub("", _OUTPUT.sub("", _HEAD.sub("", text))))
    return " ".join(_MODULE.sub("", _HERE.sub("", bare)).split())

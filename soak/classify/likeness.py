"""
How alike two tool calls are: what matches a live call to a recorded one, and what makes two turns "the same again".

Compared is what a call does: the command text of a shell call, else the arguments with their keys sorted. Spelling that
changes nothing is taken out of a command first: blanks, quotes, `cd … &&` at its head, where its output goes, and a
pipe into `head` or `tail` at its end.
"""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel

from soak.facts import ToolCall, canonical

_COMMAND_KEYS = ("command", "cmd", "script", "code", "bash_command", "commands")
_PARSED_MAX_CHARS = 1_000_000
_COMPARED_CHARS = 4_000
_WORD = re.compile(r"[\w.\-/:@~*+%$\[\]{}^]+|[^\s\w]")
_HEAD = re.compile(r"^(?:cd\s+[^\s;&|]+\s*(?:&&|;)\s*)+")
_PAGER = re.compile(r" ?(?:head|tail)(?: -(?:n ?)?\d+)?")
_OUTPUT = re.compile(r" ?(?:2>&1|[12]?> ?/dev/null|&> ?/dev/null)")
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


def likeness(first: str, second: str, *, at_least: float = 0.0) -> float:
    """
    Return how alike two texts of `call_text` are, 0 to 1; 1 if equal but for spelling, 0 if below `at_least`.

    The mean of the shares of characters and of words that both have in the same order (rapidfuzz, normalised insertions
    and deletions): characters alone call `test_a.py` and `test_b.py` the same, words alone see no typing error. Of long
    texts the first and last 2,000 characters are compared.
    """
    if first == second:
        return 1.0
    one, other = _plain(_ends(first)), _plain(_ends(second))
    if one == other:
        return 1.0
    characters = fuzz.ratio(one.text, other.text, score_cutoff=max(0.0, 200 * at_least - 100)) / 100
    if characters + 1.0 < 2 * at_least:
        return 0.0
    alike = (characters + Indel.normalized_similarity(one.words, other.words)) / 2
    return alike if alike >= at_least else 0.0


def _command(arguments: dict[str, Any]) -> str | None:
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return None


class _Plain(NamedTuple):
    """A text without the spelling that changes nothing, and its words."""

    text: str
    words: tuple[str, ...]


def _ends(text: str) -> str:
    half = _COMPARED_CHARS // 2
    return text if len(text) <= _COMPARED_CHARS else text[:half] + text[-half:]


@lru_cache(maxsize=2048)  # each call is compared with many; of at most 4,000 characters each
def _plain(text: str) -> _Plain:
    if not text.startswith("{"):
        single = " ".join(text.split())
        bare = _QUOTES.sub("", _without_pagers(_OUTPUT.sub("", _HEAD.sub("", single))))
        text = " ".join(_MODULE.sub("", _HERE.sub("", bare)).split())
    return _Plain(text, tuple(_WORD.findall(text)))


def _without_pagers(command: str) -> str:
    """Return a command without the pipes into `head` or `tail` at its end, however many a looping model wrote."""
    while True:
        rest, bar, last = command.rpartition("|")
        if not bar or not _PAGER.fullmatch(last.rstrip()):
            return command
        command = rest.rstrip()

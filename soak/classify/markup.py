"""Markup that should never reach the client: tool calls written as text, chat-template tokens, think tags."""

import json
import re
from typing import NamedTuple

_CALL = re.compile(
    r"<tool_calls?>|</tool_calls?>|<function=[\w.\-]{1,64}>|</function>|<parameter=[\w.\-]{1,64}>|<function_calls?>"
    r"|<invoke name=|\[TOOL_CALLS\]|<\|tool[^|<>\n]{0,40}\|>|<\|python_tag\|>|<\|channel\|>|<\|call\|>|<\|message\|>"
    r"|<[\uff5c]tool[^<>\n]{0,40}[\uff5c]>"
)
_TEMPLATE = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|start_header_id|end_header_id|end_of_text|begin_of_text|user|assistant"
    r"|system|end|eom_id|start|return|turn_start|turn_end|observation)\|>|<[\uff5c][^<>\n]{1,40}[\uff5c]>|\[/?INST\]"
)
_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)|`[^`\n]{1,400}`", re.DOTALL)
_THINK = re.compile(r"<think(?:ing)?>(.*?)(</think(?:ing)?>|\Z)", re.DOTALL)
# Code or a think block, whichever begins first (the group of `_CODE` comes first, since it refers to it by number).
_UNSAID = re.compile(rf"{_CODE.pattern}|{_THINK.pattern}", re.DOTALL)
_BARE_CALL = re.compile(r"\{\s*\"(?:name|arguments|parameters)\"\s*:")
_MAX_CHARS = 400_000


class Leak(NamedTuple):
    """Markup at character `at`; `last`: nothing but markup and blanks follows it."""

    kind: str
    at: int
    markup: str
    last: bool


def find_leak(content: str, known: tuple[str, ...]) -> Leak | None:
    """Return the first markup in `content` outside code that none of the `known` texts contains itself."""
    text = content[:_MAX_CHARS]
    if "<" not in text and "[" not in text:
        return None
    bare: str | None = None
    explained: set[str] = set()  # each markup is looked up once, for a looping one would be looked up at each copy
    for kind, pattern in (("call_markup", _CALL), ("template_token", _TEMPLATE)):
        if pattern.search(text) is None:
            continue
        bare = without_code(text) if bare is None else bare
        for found in pattern.finditer(bare):
            if found.group() in explained:
                continue
            if any(found.group() in text for text in known):
                explained.add(found.group())
            else:
                rest = _TEMPLATE.sub("", bare[found.start() :]).strip()
                return Leak(kind, found.start(), found.group(), not rest)
    return None


def is_bare_call(content: str) -> bool:
    """Whether `content` is nothing but the JSON of a tool call: an object of a name and arguments."""
    if len(content) > _MAX_CHARS:
        return False
    text = content.strip()
    if not _BARE_CALL.match(text[:200]):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    arguments = [value[key] for key in ("arguments", "parameters") if key in value]
    return len(value) == 2 and isinstance(value.get("name"), str) and bool(arguments) and isinstance(arguments[0], dict)


def without_code(text: str) -> str:
    """Return `text` with fenced blocks and code spans blanked out, so that all positions stay."""
    return _CODE.sub(lambda code: " " * len(code.group()), text) if "`" in text or "~~~" in text else text


def without_thinking(content: str) -> tuple[str, str]:
    """Return (content without its think blocks, text of the blocks): some servers leave reasoning in the content."""
    if "<think" not in content:
        return content, ""
    thoughts = "\n".join(found.group(1) for found in _THINK.finditer(content))
    return _THINK.sub("", content), thoughts


def next_said(text: str, tag: str, start: int) -> int:
    """Return where `tag` stands next in `text` from `start` on, code and think blocks left out; -1 for nowhere."""
    at = text.find(tag, start)
    while at >= 0:
        unsaid = _UNSAID.search(text, start)
        if unsaid is None or unsaid.start() > at:
            return at
        start = unsaid.end()
        if start > at:
            at = text.find(tag, start)
    return -1

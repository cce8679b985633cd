"""Whether the end of a text can be an end: open fences, cut JSON, half words, promises not kept."""

import json
import re
from typing import NamedTuple

from soak.classify.markup import without_code
from soak.classify.words import NUMBER_WORDS, SELDOM_ENDING, UNENDING, UNENDING_SQL

_FENCE = re.compile(r"^[ \t]{0,12}(`{3,}|~{3,})", re.MULTILINE)
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", re.MULTILINE)
_TAGS = (("<tool_call>", "</tool_call>"), ("<think>", "</think>"), ("<function=", "</function>"))
_INTENT = re.compile(
    r"(?:\A|[,:;*\-\u2014]\s*|\b(?:so|now|first|next|then|ok|okay|alright|great|good|perfect|and|but),?\s+)"
    r"(?:(?:let me|let's|let us|lets|i'll|i will|i am going to|i'm going to|i need to|i should|i want to|we need to"
    r"|we'll)\b(?!\s+know)|(?:now|next|first|then),?\s+(?:i|we|let)\b"
    r"|(?:(?:i'm|i am|we're|we are)\s+(?:now\s+|just\s+)?)?"
    r"(?:running|checking|opening|calling|reading|executing|searching)\b"
    r"|(?:i'm|i am|we're|we are)\s+(?:now\s+|just\s+)?"
    r"(?:looking (?:at|for|in|into|through)|inspecting|verifying|examining|investigating|exploring|listing|testing"
    r"|editing|updating|fixing|adding|creating|writing|applying|starting)\b)",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"\b(?:if|once|when|after|until|unless|please|would you|should you|let me know|happy to|glad to|feel free|be here"
    r"|your|assist you|help you|for you)\b|\?\s*\Z"
    # An invitation ends there; "let's start by running the tests" is an announcement.
    r"|\blet's (?:\w+ )?(?:together|begin|start|get started|go|talk|chat)[.!\s]*\Z",
    re.IGNORECASE,
)
_OFFER = re.compile(r"\b(?:please|you|your|happy to|glad to|feel free|be here|cheers|regards)\b", re.IGNORECASE)
_WORD_END = re.compile(r"(?<![^\W_])[^\W\d_]+\Z")
_LIST_ITEM = re.compile(r"^\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_NUMBERED = re.compile(r"^[^\S\n]*(\d{1,3})[.)]\s+\S", re.MULTILINE)
_FIRST_ITEM = re.compile(r"1[.)]\s")
_PROMISED = re.compile(
    r"\b(\d{1,2}|two|three|four|five|six|seven|eight|nine|ten)\s+(?:[a-z]+\s+){0,2}"
    r"(?:points|places|steps|changes|things|reasons|files|ways|issues|problems|items|parts|options|cases|bugs|fixes)\b[^\n]{0,80}:",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002][)\]\"'\u201d`*_]{0,3}(?=\s|\Z)")
_LINE_END = re.compile(r"[^\w\s]\s*\Z")
_NAME = re.compile(r"\w[./\\:_@#=()]+\w")
_EMOTICON = re.compile(r"(?:^|\s)[:;]-?\(\Z")
_COLON = re.compile(r"[\w\"'`\u201d\u2019]:\Z")
_COMES_NOW = re.compile(r"\b(?:here(?:'s| is| are)|these are|following|below|as follows|looks? like)\b", re.IGNORECASE)
_TAIL_CHARS = 4000


class Sign(NamedTuple):
    """One sign that a text broke off: its name, its points (3: impossible as an end, 1: odd), and the place."""

    name: str
    points: int
    at: int


def broken_off(text: str, *, fences: bool = True) -> list[Sign]:
    """Return the signs that `text` is not complete, without any other knowledge; `fences`: count open code fences."""
    body = text.rstrip()
    if not body:
        return []
    signs: list[Sign] = []
    fence = open_fence(body) if fences else None
    if fence is not None:
        signs.append(Sign("open_fence", 3, fence))
    signs += _open_tags(body)
    if json_prefix(body):
        signs.append(Sign("open_json", 3, 0))
    hunk = short_hunk(body)
    if hunk is not None:
        signs.append(Sign("cut_diff", 2, hunk))
    if fence is None:
        signs += _last_line(body, text)
    return signs


def _open_tags(body: str) -> list[Sign]:
    if not any(begin in body for begin, _ in _TAGS):
        return []
    bare = without_code(body)
    return [Sign("open_tag", 3, bare.rfind(begin)) for begin, end in _TAGS if bare.count(begin) > bare.count(end)]


def open_fence(text: str) -> int | None:
    """Return where a code fence opens that is never closed."""
    opened: tuple[str, int] | None = None
    for found in _FENCE.finditer(text):
        mark = found.group(1)
        line = text[found.start() : _line_end(text, found.start())].strip()
        if opened is None:
            opened = (mark, found.start())
        elif mark[0] == opened[0][0] and len(mark) >= len(opened[0]) and line.strip(mark[0]) == "":
            opened = None
    return None if opened is None else opened[1]


def json_prefix(text: str) -> bool:
    """Whether `text` begins as a JSON object or list of objects and runs out of input before it is closed."""
    start = text.lstrip()
    if not re.match(r"\{\s*(?:\"|\}|\Z)|\[\s*(?:[\[{\"\d-]|\Z)", start):
        return False
    try:
        json.JSONDecoder().raw_decode(start)
    except json.JSONDecodeError as error:
        return error.pos >= len(start) - 1 or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return False
    return False


def short_hunk(text: str) -> int | None:
    """Return where the last hunk of a unified diff begins, if it has fewer lines than its header says."""
    found = None
    for found in _HUNK.finditer(text):  # noqa: B007 - the last one is wanted
        pass
    if found is None:
        return None
    old = new = 0
    for line in text[found.end() :].split("\n")[1:]:
        if line[:1] not in (" ", "+", "-", "\\", ""):
            break
        old += line[:1] in (" ", "-", "")
        new += line[:1] in (" ", "+", "")
    wanted = tuple(int(count) if count else 1 for count in found.groups())
    return found.start() if old < wanted[0] - 1 and new < wanted[1] - 1 else None


def announces(text: str) -> bool:
    """Whether the last sentence says what the writer is about to do (and not what the reader may ask for)."""
    sentence = _last_sentence(text.rstrip()[-600:])
    return len(sentence) <= 400 and _INTENT.search(sentence) is not None and _CONDITIONAL.search(sentence) is None


def missing_items(text: str) -> int:
    """
    Return the points of a numbered list that stops before the number of items that the text promised; 0 for none.

    Three where the list begins right after the promise and is the end of the text.
    """
    promised = _PROMISED.search(text) if _FIRST_ITEM.search(text) else None
    if promised is None:
        return 0
    word = promised.group(1).lower()
    wanted = int(word) if word.isdecimal() else NUMBER_WORDS[word]
    items = text[promised.end() :]
    numbers = [int(number) for number in _NUMBERED.findall(items)]
    if not numbers or numbers[0] != 1 or not max(numbers) < wanted <= 20:
        return 0
    closes = _NUMBERED.match(items.lstrip()) and _NUMBERED.match(items[items.rfind("\n") + 1 :])
    return 3 if closes else 2


def half_word(text: str, known: str) -> bool:
    """Whether the text ends within a word: its last letters are no word of `known`, but begin one of them."""
    if text[-1:].isspace():
        return False
    found = _WORD_END.search(text[-40:])
    if found is None:
        return False
    last = found.group()
    begins = re.compile(rf"(?<![^\W_]){re.escape(last)}[^\W\d_]+")
    whole = re.compile(rf"(?<![^\W_]){re.escape(last)}(?![^\W_])")
    return begins.search(known) is not None and whole.search(known) is None


def _last_line(body: str, text: str) -> list[Sign]:
    start = body.rfind("\n") + 1
    line = body[start:].strip()
    words = line.split()
    last = _WORD_END.search(line)
    signs: list[Sign] = []
    missing = missing_items(body)
    if missing:
        signs.append(Sign("short_list", missing, start))
    if last and len(words) >= 2 and _unending(last.group()):
        signs.append(Sign("unending_word", 1 if last.group() in SELDOM_ENDING else 2, start))
        if len(words) >= 4:
            signs.append(Sign("open_sentence", 1, start))
    elif last and _is_prose(body[start:]) and "\n" not in text[len(body) :]:
        signs.append(Sign("no_full_stop", 1, start))
        if _others_end(body, start):
            signs.append(Sign("others_end", 2, start))
    if _cut_row(body, start):
        signs.append(Sign("cut_row", 3, start))
    if len(words) >= 4 and _COLON.search(line):
        signs.append(Sign("colon", 3 if _COMES_NOW.search(_last_sentence(line)) else 2, start))
    if _EMOTICON.search(line):
        return signs
    if line and line[-1] in ",=([{+&\\" and not (line[-1] == "\\" or line.endswith("==")):
        signs.append(Sign("dangling", 2 if line[-1] in "=([{" else 1, start))
    if _open_quote(line):
        signs.append(Sign("open_quote", 1, start))
    return signs


def _is_prose(line: str) -> bool:
    """Whether a line is running text: six words and more, and no item, heading, row, quotation or code."""
    return len(line.split()) >= 6 and not _LIST_ITEM.match(line) and line.lstrip()[:1] not in "#|>*`<$"


def _others_end(body: str, start: int) -> bool:
    """
    Whether the last sentence, of four words and more, is the only one without an end in a text of running sentences.

    Two must end before it. An offer or a request is none: it may end as it likes. So may one that begins with a small
    letter, as all do in some chats, or ends on a name (a path, an address): nothing is appended to what may be copied.
    """
    last = _last_sentence(body[start:])
    words = last.split()
    if len(words) < 4 or last[0].islower() or _NAME.search(words[-1]) or _OFFER.search(last):
        return False
    above = [line for line in body[max(0, start - _TAIL_CHARS) : start].splitlines() if _is_prose(line)]
    if not all(_LINE_END.search(line) for line in above):
        return False
    return sum(len(_SENTENCE_END.findall(line)) for line in [*above, body[start:]]) >= 2


def _unending(word: str) -> bool:
    """Whether no sentence, and no statement of SQL, ends with this word."""
    return word in UNENDING or (word.isupper() and word in UNENDING_SQL)


def _cut_row(body: str, start: int) -> bool:
    """Whether the last line is a table row without its end, below a row that has one."""
    above = body[:start].rstrip().rpartition("\n")[2].strip()
    line = body[start:].strip()
    rows = line.startswith("|") and above.startswith("|") and above.endswith("|")
    return rows and (not line.endswith("|") or line.count("|") < above.count("|"))


def _open_quote(line: str) -> bool:
    return line.count("`") % 2 == 1 or len(re.findall(r"(?<!\\)\"", line)) % 2 == 1 or line.count("(") > line.count(")")


def _last_sentence(tail: str) -> str:
    parts = re.split(r"(?<=[.!?\n])\s+", tail.strip())
    return parts[-1] if parts else ""


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end

"""Reading what a server says when it refuses: context limits, pauses it asks for, one-line excerpts."""

import re
from email.utils import parsedate_to_datetime
from time import time

EXCERPT_CHARS = 2000

# (limit, prompt) as each engine words it: vLLM's four forms, OpenAI, SGLang's two, llama.cpp.
_WORDINGS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"context length is (?:only )?(?P<limit>\d+).{0,200}?(?P<prompt>\d+) (?:in the messages|input tokens)",
        r"passed (?P<prompt>\d+) input tokens.{0,200}?context length is (?:only )?(?P<limit>\d+)",
        r"prompt \(length (?P<prompt>\d+)\) is longer than the maximum model length of (?P<limit>\d+)",
        r"context length is (?P<limit>\d+).{0,200}?resulted in (?P<prompt>\d+)",
        r"context length of (?P<limit>\d+) tokens.{0,200}?(?P<prompt>\d+) tokens from the input",
        r"input \((?P<prompt>\d+) tokens\) is longer than the model's context length \((?P<limit>\d+)",
        r"request \((?P<prompt>\d+) tokens\) exceeds the available context size \((?P<limit>\d+)",
        r"context length is (?P<limit>\d+).{0,200}?requested (?P<prompt>\d+)",
    )
)


def context_limit_of(error_text: str) -> tuple[int, int] | None:
    """
    Return (context limit, prompt tokens) from a refusal of a prompt that does not fit, None if it is not one.

    Both in tokens. Some engines state only the sum with the tokens asked for, or "at least" so many: read the second
    number as about right.
    """
    text = error_text[:EXCERPT_CHARS]
    for wording in _WORDINGS:
        match = wording.search(text)
        if match is not None and len(match["limit"]) < 12 and len(match["prompt"]) < 12:
            return int(match["limit"]), int(match["prompt"])
    return None


def retry_after_s(header: str | None) -> float | None:
    """Return the pause a Retry-After header asks for, in seconds; None if there is none that can be read."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return _until(header)
    return seconds if 0 <= seconds < 1e9 else None


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date[:100]).timestamp() - time())
    except (ValueError, OverflowError):
        return None


def excerpt(text: str, limit: int = EXCERPT_CHARS) -> str:
    """Return `text` as one line of at most `limit` characters."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"

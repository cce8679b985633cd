"""`soak classify`: judge answers given as JSONL; no server, no run."""

from collections.abc import Iterable, Iterator
from typing import Any

from soak.classify import answer_line, judge, parse_answer
from soak.errors import TranscriptError

MAX_LINE_BYTES = 256 * 1024 * 1024


def classify_lines(lines: Iterable[bytes], name: str) -> Iterator[dict[str, Any]]:
    """
    Yield one result for each non-empty line of JSON in `lines`, in order.

    Raises `TranscriptError` naming `name` and the line for what is not an answer; earlier results have been yielded.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE_BYTES:
            raise TranscriptError(
                f"{name}:{number} is too long",
                why=f"it has {len(line)} bytes, the limit is {MAX_LINE_BYTES}",
                hint="give one answer a line, or spell repetition with `repeat`",
            )
        answer_id, observation, context = parse_answer(line, f"{name}:{number}")
        yield answer_line(answer_id, judge(observation, context))

"""The end of a log file, fit to be shown: bounded, printable."""

import re
from pathlib import Path

TAIL_BYTES = 64 * 1024
LINE_CHARS = 300

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_lines(path: Path, lines: int, *, start: int = 0) -> tuple[str, ...]:
    """Return the last non-empty lines written after byte `start`; nothing if the file cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(start, end - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    shown = (_shown(line) for line in re.split(r"[\r\n]+", text))
    return tuple([line for line in shown if line][-lines:]) if lines > 0 else ()


def _shown(line: str) -> str:
    return _CONTROLS.sub("", _ESCAPES.sub("", line)).strip()[:LINE_CHARS]

"""
The switch as the environment gives it, and the count of what fired.

    SOAK_PLANTED         what is planted from the start
    SOAK_PLANTED_FILE    a file with the same text; where it exists it wins, and it is read again when it changes,
                         which is looked for once per step of the engine
    SOAK_PLANTED_COUNTS  a file the counts are written to after each step, as JSON: `planted` (the text of the switch
                         they count for), `refused` (why the file's text plants nothing, else null), `requests`,
                         `steps`, `tokens`, `drafts` (tokens), of them `accepted`, `truncated_blocks` and `fired`,
                         by fault; whole at any time, and begun anew with each switch
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from .switch import TEXT_CHARS, Switch, parse

VARIABLE = "SOAK_PLANTED"
VARIABLE_FILE = "SOAK_PLANTED_FILE"
VARIABLE_COUNTS = "SOAK_PLANTED_COUNTS"
COUNTED = ("requests", "steps", "tokens", "drafts", "accepted", "truncated_blocks")


def say(text: str, stream: TextIO) -> None:
    """Write one line that can be found in the engine's log."""
    stream.write(f"soak-planted: {text}\n")
    stream.flush()


class Control:
    """The switch that holds now (`switch`) and what was counted under it (`counts`, `fired`)."""

    def __init__(self, switch: Switch, file: Path | None, counts_file: Path | None) -> None:
        self.switch = switch
        self.refused: str | None = None
        self.counts: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        self._file = file
        self._counts_file = counts_file
        self._seen: tuple[int, ...] | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Control":
        """Return what `environment` gives; raises `ValueError` if SOAK_PLANTED names no fault."""
        paths = (environment.get(name) for name in (VARIABLE_FILE, VARIABLE_COUNTS))
        return cls(parse(environment.get(VARIABLE, "")), *(Path(path) if path else None for path in paths))

    def refresh(self) -> bool:
        """Take in the file if it changed, and return whether it had; a text that means nothing plants nothing."""
        state = self._state()
        if state is None or state == self._seen:
            return False
        self._seen, self.refused = state, None
        try:
            self.switch = parse(self._text())
        except ValueError as error:
            self.switch, self.refused = Switch(), str(error)
        self.counts.clear()
        self.fired.clear()
        say(f"refused: {self.refused}" if self.refused else self.switch.sentence, sys.stderr)
        return True

    def write(self) -> None:
        """Write the counts, if a file is named for them."""
        if self._counts_file is None:
            return
        counts = {name: self.counts[name] for name in COUNTED}
        content = {"planted": self.switch.text, "refused": self.refused, **counts, "fired": dict(self.fired)}
        beside = self._counts_file.with_suffix(".new")
        beside.write_text(json.dumps(content))
        beside.replace(self._counts_file)

    def _state(self) -> tuple[int, ...] | None:
        try:
            found = self._file.stat() if self._file else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None

    def _text(self) -> str:
        assert self._file is not None
        with self._file.open(encoding="utf-8", errors="replace") as file:
            return file.read(TEXT_CHARS + 1)

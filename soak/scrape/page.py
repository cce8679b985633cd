"""The text of a metrics page → the few samples we know, read line by line so that one bad line spoils no other."""

import math
from collections.abc import Collection

from prometheus_client.parser import text_string_to_metric_families

# The parser takes time by the square of the backslashes in a label.
MAX_LINE_CHARS = 8192
MAX_LINE_BACKSLASHES = 64
MAX_SAMPLES = 20_000

Series = list[tuple[dict[str, str], float]]


class Page:
    """Labels and values by metric name, for the `wanted` names. A name with a line that does not parse is left out."""

    def __init__(self, text: str, wanted: Collection[str]) -> None:
        self._series: dict[str, Series] = {}
        self._broken: set[str] = set()
        left = MAX_SAMPLES
        for line in text.split("\n"):
            name = line[:128].lstrip().split("{", 1)[0].split(None, 1)
            if not name or name[0] not in wanted:
                continue
            left -= 1
            if left < 0:
                self._broken.add(name[0])
            else:
                self._read(name[0], line)

    def _read(self, name: str, line: str) -> None:
        try:
            if len(line) > MAX_LINE_CHARS or line.count("\\") > MAX_LINE_BACKSLASHES:
                raise ValueError("line too long")
            (family,) = text_string_to_metric_families(line)
            (sample,) = family.samples
            value = float(sample.value)
        except Exception:  # a foreign parser on hostile text: whatever it raises, this line says nothing
            self._broken.add(name)
            return
        if sample.name != name or not math.isfinite(value) or value < 0:
            self._broken.add(name)
        else:
            self._series.setdefault(name, []).append((dict(sample.labels), value))

    def series(self, *names: str) -> Series | None:
        """Return the samples of the first of `names` (newest first) that the page has whole; None if it has none."""
        for name in names:
            if name in self._series and name not in self._broken:
                return self._series[name]
        return None

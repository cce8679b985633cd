"""Logs for people, set up once: to stderr as lines or JSON, and to the run's `soak.log` as JSON lines."""

import json
import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import IO, Any

import structlog

from soak.client import Scrub

_KEY_NAMES = ("SOAK_API_KEY", "OPENAI_API_KEY")


class LogSink:
    """Where log events go; `quiet` keeps them off stderr (the live view owns the terminal then)."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._file: IO[str] | None = None
        self._console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        self.quiet = False

    def attach(self, path: Path) -> None:
        """Also append every event to the file at `path`."""
        self._file = path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Close the file, if one is attached."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def render(self, logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
        """Write `event` to the file and return its line for stderr; raises `structlog.DropEvent` if quiet."""
        line = json.dumps(event, default=str, ensure_ascii=True)
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()
        if self.quiet:
            raise structlog.DropEvent
        return line if self._as_json else str(self._console(logger, name, event))


def configure(*, as_json: bool, verbose: bool = False) -> LogSink:
    """Set structlog up for this process and return the sink, to which a run attaches its own file."""
    sink = LogSink(as_json=as_json)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if not as_json else "iso", utc=as_json),
            _without_keys(),
            sink.render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(10 if verbose else 20),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    return sink


def _without_keys() -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """Return what takes the API keys of this process's environment out of logged texts, by the client's rule."""
    scrubs = [Scrub(api_key=os.environ.get(name) or None, basic=None) for name in _KEY_NAMES]

    def scrubbed(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for field, value in event.items():
            if isinstance(value, str):
                for scrub in scrubs:
                    value = scrub.words(value)
                event[field] = value
        return event

    return scrubbed

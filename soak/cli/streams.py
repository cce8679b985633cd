"""
stdout and stderr that never end a run: missing, closed by their reader, or unable to spell a character.

What is said to a person must not decide what becomes of five hours of work, nor of an exit code.
"""

import os
import sys
from typing import IO, Any, cast


class Patient:
    """A text stream that takes whatever is written to it; once its reader is gone, nothing more is shown."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop the text where nobody reads any more."""
        try:
            return self._stream.write(text)
        except OSError:
            self._nobody_reads()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what was not flushed where nobody reads any more."""
        try:
            self._stream.flush()
        except OSError:
            self._nobody_reads()

    def _nobody_reads(self) -> None:
        """Let the descriptor lead nowhere, so that what is still buffered cannot fail again."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_patient() -> None:
    """Put patient streams in place of `sys.stdout` and `sys.stderr`."""
    sys.stdout = _patient(sys.stdout)
    sys.stderr = _patient(sys.stderr)


def _patient(stream: IO[str] | None) -> Any:
    if stream is None:  # closed before we were started: `soak … >&-`
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return cast("IO[str]", Patient(stream))

"""Server-sent events out of bytes that may be cut anywhere."""

from typing import NamedTuple

EVENT_LIMIT_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """One event: its name (empty where it has none) and its data lines joined by line breaks."""

    name: bytes
    data: bytes


class EventTooLargeError(Exception):
    """A line or event passed 8 MiB without an end."""


class SseParser:
    """
    Incremental parser of an event stream, after the WHATWG rules: LF, CR and CRLF end lines, `:` opens a comment, a
    byte order mark at the head is skipped, several data lines are joined.

    It departs from them once, for servers that forget the last blank line: `close()` gives what is pending.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._at_head = True

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Return the events that `data` completes. Raises `EventTooLargeError`."""
        if b"\n" not in data and b"\r" not in data:
            self._keep(data)
            return []
        block = self._joined(data)
        if self._at_head:
            self._at_head = False
            block = block.removeprefix(_BOM)
        if b"\r" in block:
            block = self._normalised(block)
        head, newline, rest = block.rpartition(b"\n")
        if rest:
            self._keep(rest)
        return self._lines(head) if newline else []

    def close(self) -> list[ServerEvent]:
        """Return the event that was still open when the stream ended, if any."""
        rest = self._joined(b"").removesuffix(b"\r")
        if self._at_head:
            rest = rest.removeprefix(_BOM)
        return self._lines(rest + b"\n" if rest else b"")

    def _keep(self, data: bytes) -> None:
        self._rest.append(data)
        self._rest_bytes += len(data)
        if self._rest_bytes > EVENT_LIMIT_BYTES:
            raise EventTooLargeError

    def _joined(self, data: bytes) -> bytes:
        """Return what was kept with `data` after it, and forget it; parts are joined once, not at each read."""
        if not self._rest:
            return data
        block = b"".join((*self._rest, data))
        self._rest = []
        self._rest_bytes = 0
        return block

    def _normalised(self, block: bytes) -> bytes:
        """Return `block` with LF line ends; a CR at its very end waits in it, since an LF may follow."""
        held = block.endswith(b"\r")
        body = block[:-1] if held else block
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return body + b"\r" if held else body

    def _lines(self, head: bytes) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        for line in head.split(b"\n"):
            if line.startswith(b"data: "):
                self._add(line[6:])
            elif not line:
                if self._data:
                    events.append(self._take())
                self._name = b""
            else:
                self._field(line)
        return events

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + 1
        if self._data_bytes > EVENT_LIMIT_BYTES:
            raise EventTooLargeError

    def _take(self) -> ServerEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        self._data_bytes = 0
        return ServerEvent(self._name, data)

    def _field(self, line: bytes) -> None:
        """Take a line that is not the usual `data: …`; unknown fields and comments are passed over."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._name = value

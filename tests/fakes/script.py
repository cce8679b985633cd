"""What a fake server does for one request, as a list of steps below HTTP."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Head:
    """Send the status line and headers; `chunked` frames later `Send`s as HTTP chunks."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream; charset=utf-8"),)
    chunked: bool = True


@dataclass(frozen=True, slots=True)
class Send:
    """Send `data` as one HTTP chunk (or plainly where the head was not chunked); `tokens` move the counters."""

    data: bytes
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Raw:
    """Put `data` on the socket exactly as it is."""

    data: bytes
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Pause for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Pause until `server.event(name)` is set by the test."""

    name: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Say nothing more until the client hangs up (or `seconds` pass)."""

    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection with a TCP reset."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection in good order on TCP level, whatever HTTP still promises."""


@dataclass(frozen=True, slots=True)
class End:
    """End the HTTP body; the connection stays usable."""


Step = Head | Send | Raw | Wait | Until | Silence | Reset | Close | End


@dataclass(frozen=True, slots=True)
class Truth:
    """What a right tool must make of the turn this script answers."""

    fault: str
    expected: str
    endings: tuple[str, ...] = ("complete",)


@dataclass(frozen=True, slots=True)
class Script:
    """The steps, which may be made while they are played; `finish` feeds request_success, `truth` the ground truth."""

    steps: Iterable[Step]
    finish: str | None = None
    truth: Truth | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)


def framed(data: bytes) -> bytes:
    """Return `data` as one chunk of a chunked HTTP body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def burst(events: Iterable[bytes], tokens: int = 0) -> Raw:
    """Return one step that sends many events at once, each as its own HTTP chunk."""
    return Raw(b"".join(framed(event) for event in events), tokens)


def cut(events: Iterable[bytes], size: int) -> list[Send]:
    """Return the stream of `events` re-cut into HTTP chunks of `size` bytes, wherever that falls."""
    whole = b"".join(events)
    return [Send(whole[i : i + size]) for i in range(0, len(whole), size)]

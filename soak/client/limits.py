"""Limits of our own machine that end a connection attempt: they must not be told as the server's faults."""

import errno
from collections.abc import Iterator

from soak.errors import UsageError

_DEPTH = 16
_LOWER_LOAD = "lower load.in_flight"
_OURS = {
    errno.EMFILE: ("our own limit on open files is reached", f"raise it with ulimit -n, or {_LOWER_LOAD}"),
    errno.ENFILE: ("this machine's limit on open files is reached", f"close other programs, or {_LOWER_LOAD}"),
    errno.ENOMEM: ("this machine has no memory for another connection", f"free some memory, or {_LOWER_LOAD}"),
    errno.EADDRNOTAVAIL: (
        "this machine has no local address or port for another connection",
        f"{_LOWER_LOAD}; if the server's host is ::1, say 127.0.0.1",
    ),
}


def own_limit(error: BaseException) -> UsageError | None:
    """
    Return what to tell where a connection failed by a limit of our own machine, None where the other side is at fault.

    Looks through what aiohttp, httpx2 and openai wrap around the operating system's error. Where several addresses were
    tried, all must have failed so.
    """
    numbers = set(_numbers(error))
    if not numbers or not numbers <= _OURS.keys():
        return None
    what, hint = _OURS[min(numbers)]
    return UsageError(what, why=f"a connection could not be opened: {errno.errorcode[min(numbers)]}", hint=hint)


def _numbers(error: BaseException, depth: int = 0) -> Iterator[int]:
    """Yield the numbers of the operating system's errors in what an exception was made from."""
    if depth > _DEPTH:
        return
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _numbers(one, depth + 1)
    elif isinstance(error, OSError) and error.errno is not None:
        yield error.errno
    elif (cause := error.__cause__ or error.__context__) is not None:
        yield from _numbers(cause, depth + 1)

"""Limits of our own machine: they end in words of their own, and are never told as the server's faults."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from fakes import FakeServer

from soak.client import Desk, Request, Target, WireClient, discover
from soak.client.limits import own_limit
from soak.client.sdk import SdkClient
from soak.errors import UsageError

Make = Callable[..., Request]


@contextmanager
def no_more_files() -> Iterator[None]:
    """Leave this process no file descriptor to open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(probe + 64, soft), hard))
    try:
        try:
            while True:
                held.append(os.dup(0))
        except OSError:
            yield
    finally:
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("client_class", [WireClient, SdkClient])
async def test_no_more_open_files_is_our_own_fault(
    fake: FakeServer, request_for: Make, client_class: type[WireClient]
) -> None:
    """With no descriptor left, either path raises a usage error that names the limit, and sends nothing."""
    async with client_class(Target.parse(fake.url)) as client:
        with no_more_files(), pytest.raises(UsageError, match="open files") as caught:
            await client.exchange(request_for(), lambda chunk: False)
        assert "ulimit -n" in caught.value.hint
        assert "load.in_flight" in caught.value.hint
        assert not fake.chats
        assert (await client.exchange(request_for(), lambda chunk: False)).observation.ending == "complete"


async def test_discovery_says_so_too_and_the_server_counts_as_up(fake: FakeServer) -> None:
    """With no descriptor left, discovery raises the same error, and the desk does not call the server down."""
    async with Desk(Target.parse(fake.url)) as desk:
        with no_more_files():
            with pytest.raises(UsageError, match="open files"):
                await discover(desk)
            assert await desk.is_up()
        await fake.stop()
        assert not await desk.is_up()
        await fake.start()


def raised(error: OSError) -> Exception:
    """Return an exception as libraries make it from the system's."""
    try:
        try:
            raise error
        except OSError as cause:
            raise RuntimeError("connect") from cause
    except RuntimeError as made:
        return made


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EADDRNOTAVAIL])
def test_each_limit_of_ours_is_known(number: int) -> None:
    """Each number of a limit of ours is found in what wraps it, and has three lines of its own."""
    found = own_limit(raised(OSError(number, "x")))
    assert found is not None
    assert errno.errorcode[number] in found.why


@pytest.mark.parametrize("error", [ConnectionRefusedError(errno.ECONNREFUSED, "x"), OSError("x"), TimeoutError()])
def test_other_failures_are_the_other_sides(error: OSError) -> None:
    """A refusal, an error without a number and a timeout are no limits of ours."""
    assert own_limit(raised(error)) is None


def test_one_address_that_fails_otherwise_is_the_other_sides() -> None:
    """Where ::1 does not exist here and 127.0.0.1 refuses, it is the server that is away."""
    away, refused = OSError(errno.EADDRNOTAVAIL, "x"), OSError(errno.ECONNREFUSED, "x")
    assert own_limit(ExceptionGroup("all", [away, refused])) is None
    assert own_limit(ExceptionGroup("all", [away, away])) is not None

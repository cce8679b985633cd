"""Our own limits are met before the first request, with words."""

import resource

import pytest

from soak.app.limits import make_room_for_streams
from soak.errors import UsageError


def test_too_few_open_files_are_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that needs more open files than this process may ever have is refused, and the message says how many."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 256))
    with pytest.raises(UsageError, match="200 conversations at once need 328"):
        make_room_for_streams(200, 1)


def test_the_soft_limit_is_raised_as_far_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system allows it, the limit is raised to what is needed and no further."""
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    make_room_for_streams(200, 2)
    assert raised == [(528, 4096)]

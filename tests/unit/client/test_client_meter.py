"""Who counts what is sent to a target is asked before each attempt, on both paths."""

from collections.abc import Callable

import pytest
from fakes import FakeServer, status

from soak.client import Request, Target, open_client
from soak.errors import UsageError
from soak.facts.scenario import ClientPath
from soak.probe import Allowance


@pytest.mark.parametrize("path", ["wire", "sdk"])
async def test_attempts_end_with_what_the_meter_allows(
    path: ClientPath, fake: FakeServer, request_for: Callable[..., Request]
) -> None:
    """Two of three attempts are sent where two may be, and a further request is not sent at all."""
    fake.policy = lambda _: status(429, "later", headers=(("retry-after", "0"),))
    target = Target(fake.url, model="fake-model", meter=Allowance(2))
    async with open_client(target, path) as client:
        observation = (await client.exchange(request_for(), lambda _: False)).observation
        assert len(observation.attempts) == len(fake.chats) == 2
        with pytest.raises(UsageError, match="may send 2 requests"):
            await client.exchange(request_for(), lambda _: False)
    assert len(fake.chats) == 2


def test_a_meter_is_no_part_of_what_a_target_is() -> None:
    """Targets that differ in who counts are the same server, and say the same of themselves."""
    counted = Target("http://host:8000", meter=Allowance(1))
    assert counted == Target("http://host:8000")
    assert repr(counted) == repr(Target("http://host:8000"))

"""What a target says of itself without being made to generate anything."""

import pytest
from fakes import FakeEngine, FakeServer

from soak.client import Desk, Target, survey
from soak.errors import TargetError


async def test_a_survey_generates_nothing() -> None:
    """Model, version, context and metrics are found out, and no chat request is sent."""
    async with FakeServer() as fake, Desk(Target.parse(fake.url)) as desk:
        found = await survey(desk)
        assert not fake.chats
    assert (found.model, found.engine, found.version) == ("fake-model", "vllm", "0.32.0")
    assert (found.context_tokens, found.metrics) == (131_072, True)


async def test_a_survey_goes_as_far_as_it_is_let() -> None:
    """Several models, or a key that only the clients have, leave the model unknown and are no errors."""
    async with FakeServer(engine=FakeEngine(more_models=("b",))) as fake, Desk(Target.parse(fake.url)) as desk:
        assert (await survey(desk)).model == "unknown"
    async with FakeServer(engine=FakeEngine(requires_key="k")) as fake, Desk(Target.parse(fake.url)) as desk:
        assert (await survey(desk)).model == "unknown"
    async with (
        FakeServer(engine=FakeEngine(more_models=("b",))) as fake,
        Desk(Target.parse(fake.url, model="b")) as desk,
    ):
        assert (await survey(desk)).model == "b"


async def test_a_target_that_is_away_is_an_error() -> None:
    """A survey of a port nobody listens on says so."""
    fake = FakeServer()
    await fake.start()
    await fake.stop()
    async with Desk(Target.parse(fake.url)) as desk:
        with pytest.raises(TargetError, match="cannot reach"):
            await survey(desk)

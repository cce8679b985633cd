"""What a probe sends is counted, repeated attempts and scores included, and never more than was said."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes import seeded_policy
from rigs.faulty_states import FaultyServer, OneServer
from rigs.grids import CASE

from soak.app.probe.benches import Kept
from soak.app.probe.repeats import probe_repeats
from soak.client import Desk, Target, scores
from soak.errors import TargetError, UsageError
from soak.facts import Sampling
from soak.probe import Allowance

TURN = msgspec.structs.replace(CASE, sampling=Sampling(max_tokens=60))


@pytest.fixture
def faulty() -> Iterator[FaultyServer]:
    """A server of its own for each of these: its requests are counted."""
    with FaultyServer() as server:
        yield server


def sent_to(faulty: FaultyServer, rates: dict[str, float], repeats: int, most: int, folder: Path) -> int:
    """Return how many chat requests reach the server when a turn is asked so often, within so many requests."""
    faulty.server.policy = seeded_policy(1, rates)
    before = len(faulty.server.chats)
    with Kept(folder) as kept:
        benches = OneServer(faulty, folder, kept, max_requests=most)
        try:
            probe_repeats(TURN, repeats, benches)
        except TargetError:
            assert set(rates) == {"http_429"}, "only where nothing was answered"
        finally:
            assert benches.allowance.used == kept.sent <= most
    return len(faulty.server.chats) - before


def test_repeated_attempts_are_counted_and_end_with_the_allowance(faulty: FaultyServer, tmp_path: Path) -> None:
    """A server that refuses everything is asked each question once and again only while requests are left."""
    assert sent_to(faulty, {"http_429": 1.0}, 3, 3, tmp_path / "none left") == 3
    assert sent_to(faulty, {"http_429": 1.0}, 3, 5, tmp_path / "two left") == 5
    assert sent_to(faulty, {"http_429": 1.0}, 3, 99, tmp_path / "enough") == 12


def test_what_earlier_processes_sent_counts(faulty: FaultyServer, tmp_path: Path) -> None:
    """Attempts and answers of an earlier process count in the same folder; what is kept is had without any."""
    assert sent_to(faulty, {"http_429": 1.0}, 1, 99, tmp_path) == 4
    assert sent_to(faulty, {}, 2, 6, tmp_path) == 2
    assert sent_to(faulty, {}, 2, 6, tmp_path) == 0
    with pytest.raises(UsageError, match="may send 6 requests"):
        sent_to(faulty, {}, 3, 6, tmp_path)
    assert sent_to(faulty, {}, 3, 7, tmp_path) == 1


def test_a_folder_made_before_requests_were_noted_counts_its_answers(faulty: FaultyServer, tmp_path: Path) -> None:
    """Without notes of what was sent the answers kept say how many it were, attempts included."""
    assert sent_to(faulty, {}, 4, 4, tmp_path) == 4
    (tmp_path / "sent.jsonl").unlink()
    with pytest.raises(UsageError, match="may send 4 requests"):
        sent_to(faulty, {}, 5, 4, tmp_path)
    assert sent_to(faulty, {}, 5, 5, tmp_path) == 1
    assert sum(json.loads(line)["requests"] for line in (tmp_path / "sent.jsonl").read_text().splitlines()) == 5


def test_a_full_folder_needs_no_allowance(faulty: FaultyServer, tmp_path: Path) -> None:
    """What is all kept is told again however small the limit is now."""
    assert sent_to(faulty, {}, 4, 4, tmp_path) == 4
    with Kept(tmp_path) as kept:
        assert probe_repeats(TURN, 4, OneServer(faulty, tmp_path, kept, max_requests=1)).outcomes[0].asked == 4


def test_scores_are_counted_and_tokenising_is_not(faulty: FaultyServer) -> None:
    """A completion that scores counts before it is sent, one beyond the allowance is not sent; /tokenize is free."""

    async def ask(allowance: Allowance) -> None:
        async with Desk(Target(faulty.server.url, model="m", meter=allowance)) as desk:
            await desk.count_tokens({"model": "m", "messages": []})
            with pytest.raises(TargetError):
                await scores(desk, "m", (1, 1), 1)
            with pytest.raises(UsageError, match="may send 1 requests"):
                await scores(desk, "m", (1, 1), 1)

    allowance = Allowance(1)
    asyncio.run(ask(allowance))
    assert allowance.used == 1
    paths = [one.path for one in faulty.server.received]
    assert paths.count("/v1/completions") == 1


def test_what_is_held_back_is_not_taken_for_repeats() -> None:
    """While two are held back of three, one repeat may be sent and no second; a fourth question is refused."""
    allowance = Allowance(3)
    with allowance.held(2):
        assert (allowance.again(), allowance.again()) == (True, False)
        allowance.send()
    assert (allowance.used, allowance.left) == (2, 1)
    with pytest.raises(UsageError, match="may send 3 requests"), allowance.held(2):
        raise AssertionError("not reached")

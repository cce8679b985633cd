"""Shrinking and what its plan says, against a server whose faults need what the conversation holds."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes import Ask, Script, make
from rigs.faulty_states import FaultyServer, OneServer
from rigs.grids import CASE

from soak.app.probe.benches import Kept, ProbeOrder
from soak.app.probe.caches import CacheOrder, plan_caches
from soak.app.probe.repeats import plan_repeats, probe_repeats
from soak.app.probe.repro import make_repro, plan_repro
from soak.app.probe.shrink import ShrinkOrder, plan_shrink, probe_shrink
from soak.facts import Case, Message, Sampling, ShrinkFound

ROLES = ("system", *("user", "assistant") * 4, "user")
TALK = tuple(
    Message(role=role, content="the poison" if at == 3 else f"the reader {at}")  # type: ignore[arg-type]
    for at, role in enumerate(ROLES)
)
TURN = msgspec.structs.replace(CASE, messages=TALK, sampling=Sampling(max_tokens=300))
ORDER = ShrinkOrder(repeats=10, budget=120)


@pytest.fixture
def faulty() -> Iterator[FaultyServer]:
    """A server for each of these."""
    with FaultyServer() as server:
        yield server


def poisoned(ask: Ask) -> Script:
    """Loop wherever the conversation holds the poison."""
    return make("loop" if "poison" in json.dumps(ask.body["messages"]) else "none", ask)


def shrunk(faulty: FaultyServer, folder: Path, case: Case = TURN) -> ShrinkFound:
    with Kept(folder) as kept:
        return probe_shrink((case,), ORDER, OneServer(faulty, folder, kept), folder)


def order_for(faulty: FaultyServer, folder: Path) -> ProbeOrder:
    with Kept(folder) as kept:
        return OneServer(faulty, folder, kept).order


def test_the_smallest_form_is_asked_afresh_and_told_with_an_interval(faulty: FaultyServer, tmp_path: Path) -> None:
    """What is told of the smallest form comes from rounds that did not choose it, within what the plan said."""
    faulty.server.policy = poisoned
    planned = plan_shrink((TURN,), ORDER, order_for(faulty, tmp_path))
    found = shrunk(faulty, tmp_path)
    assert found.after.messages < found.before.messages
    assert (found.fresh_failed, found.fresh_rounds, found.given_up) == (10, 10, 0)
    assert found.fresh_low == pytest.approx(0.72, abs=0.01)
    assert "asked afresh in 10 of 10 now (95 %: 72% to 100%)" in found.text
    repeats = {json.loads(line)["repeat"] for line in (tmp_path / "trials.jsonl").read_text().splitlines()}
    assert set(range(1000, 1010)) <= repeats
    assert found.requests <= planned.requests == 2 * 10 + 120


def test_what_failed_by_luck_is_given_up(faulty: FaultyServer, tmp_path: Path) -> None:
    """Forms that fail while they are chosen and never again are not told as failing: the whole one is left."""
    seen: Counter[str] = Counter()

    def lucky(ask: Ask) -> Script:
        text = json.dumps(ask.body["messages"])
        seen[text] += 1
        return make("loop" if len(ask.body["messages"]) == len(TALK) or seen[text] <= 5 else "none", ask)

    faulty.server.policy = lucky
    found = shrunk(faulty, tmp_path)
    assert any(step.kept for step in found.steps)
    assert found.given_up >= 1
    assert found.after == found.before
    assert (found.fresh_failed, found.fresh_rounds) == (10, 10)
    assert "were not confirmed when asked afresh" in found.text


def test_a_plan_says_what_is_answered_already(faulty: FaultyServer, tmp_path: Path) -> None:
    """Of a finished probe the plan is what it asked, all of it kept; of one broken off, what it will find again."""
    faulty.server.policy = poisoned
    order = order_for(faulty, tmp_path)
    found = shrunk(faulty, tmp_path)
    whole = plan_shrink((TURN,), ORDER, order)
    trials = tmp_path / "trials.jsonl"
    assert whole.kept == whole.requests == len(trials.read_bytes().splitlines())
    trials.write_text("".join(trials.read_text().splitlines(keepends=True)[:17]))
    part = plan_shrink((TURN,), ORDER, order)
    assert (part.requests, part.kept) == (140, 17)
    assert shrunk(faulty, tmp_path).after == found.after


def test_every_mode_counts_what_is_kept(faulty: FaultyServer, tmp_path: Path) -> None:
    """Repeats and bundles find their own answers in the folder; the cache probes find none of them."""
    faulty.server.policy = poisoned
    order = order_for(faulty, tmp_path)
    with Kept(tmp_path) as kept:
        benches = OneServer(faulty, tmp_path, kept)
        probe_repeats(TURN, 4, benches)
    assert (plan_repeats(TURN, 6, order).requests, plan_repeats(TURN, 6, order).kept) == (6, 4)
    assert plan_repro((TURN,), ORDER, order, shrinking=False).kept == 4
    assert plan_caches(TURN, CacheOrder(), order).kept == 0


def test_a_bundle_asks_no_more_than_shrinking_did(faulty: FaultyServer, tmp_path: Path) -> None:
    """The rounds that confirmed the smallest form are those that the bundle promises from."""
    faulty.server.policy = poisoned
    shrunk(faulty, tmp_path)
    sent = len(faulty.server.chats)
    planned = plan_repro((TURN,), ORDER, order_for(faulty, tmp_path), shrinking=True)
    assert planned.kept == planned.requests == sent
    with Kept(tmp_path) as kept:
        made = make_repro(
            (TURN,), ORDER, OneServer(faulty, tmp_path, kept, max_requests=1), tmp_path / "a.zip", shrinking=True
        )
    assert (made.promise.failed, made.promise.asked) == (10, 10)
    assert len(faulty.server.chats) == sent

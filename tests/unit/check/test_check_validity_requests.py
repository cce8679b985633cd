"""Two arms are compared only if paired turns were the same request, sent and judged in the same way."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from check_histories import arm_records, manifest, side

from soak.check import ArmHistory, compare
from soak.facts import Capabilities, Manifest, Retries


def arm(name: str, digests: Mapping[int, str] | None = None, *, of: Manifest | None = None, **seen: Any) -> ArmHistory:
    """An arm of 40 turns that were sent as "same", but for `digests`."""
    found = arm_records(name, 40)
    if seen:
        found = {
            key: msgspec.structs.replace(one, observation=msgspec.structs.replace(one.observation, **seen))
            for key, one in found.items()
        }
    sent = {key: (digests or {}).get(number, "same") for number, key in enumerate(found)}
    return replace(side(name, found, of), requests=sent)


def able(name: str, **capabilities: Any) -> Manifest:
    content = manifest((name,))
    (card,) = content.arms
    told = Capabilities(model="m", **capabilities)
    return msgspec.structs.replace(content, arms=(msgspec.structs.replace(card, capabilities=told),))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"client": "sdk"}, "different client paths: wire and sdk"),
        ({"on_loop": "cut"}, "different ways with loops (on_loop): record and cut"),
        ({"retries": Retries(attempts=1)}, "different retries: attempts 4 and 1"),
        ({"logprobs": 3}, "different logprobs: None and 3"),
        ({"min_room_tokens": 99}, "different min_room_tokens: 16 and 99"),
        ({"extra_body": {"top_a": 1}}, "different extra request fields: top_a None and 1"),
        ({"classify": {"loop_copies": 9.0}}, "different classifier settings: loop_copies None and 9.0"),
    ],
)
def test_arms_that_were_sent_or_judged_otherwise_are_not_compared(change: dict[str, Any], named: str) -> None:
    """Each field that changes what is sent, taken in or judged voids the comparison by name."""
    found = compare(side("a", arm_records("a", 40)), side("b", arm_records("b", 40), manifest(("b",), **change)))
    assert named in found.invalid
    assert found.verdict == "unknown"


@pytest.mark.parametrize("change", [{"drain_s": 5.0}, {"scrape_every_s": 60.0}, {"warm_up_turns": 3}])
def test_what_changes_no_request_changes_no_comparison(change: dict[str, Any]) -> None:
    """How a run is drained, watched or warmed up may differ."""
    found = compare(side("a", arm_records("a", 40)), side("b", arm_records("b", 40), manifest(("b",), **change)))
    assert found.invalid == []


def test_pairs_that_were_not_sent_the_same_void_the_comparison() -> None:
    """Two of forty digests that differ are counted, and the first of them is named."""
    found = compare(arm("a"), arm("b", {3: "other", 30: "another"}))
    assert found.invalid == [
        "different requests: 2 of 40 paired turns were not sent the same in both arms, the first of them e000:3:0"
    ]
    assert compare(arm("a"), arm("b")).invalid == []


def test_a_digest_that_is_not_known_says_nothing() -> None:
    """Where an arm does not tell what it sent, no difference is claimed."""
    for known, unknown in (
        (arm("a", {3: "other"}), side("b", arm_records("b", 40))),
        (side("a", arm_records("a", 40)), arm("b")),
    ):
        assert compare(known, unknown).invalid == []


def test_clamps_by_another_context_are_left_to_the_warning() -> None:
    """Clamped turns may differ where contexts do; unclamped turns, and turns in equal contexts, may not."""
    other = dict.fromkeys(range(40), "other")
    first = arm("a", of=able("a", context_tokens=8192))
    short, same = able("b", context_tokens=4096), able("b", context_tokens=8192)
    assert compare(first, arm("b", other, of=short, clamped=True)).invalid == []
    assert len(compare(first, arm("b", other, of=short)).invalid) == 1
    assert len(compare(first, arm("b", other, of=same, clamped=True)).invalid) == 1


def live(name: str) -> Manifest:
    """The manifest of a proxied run."""
    return manifest((name,), replay="proxy")


def test_live_traffic_that_went_another_way_is_compared_unpaired() -> None:
    """Where two proxied runs were not asked the same, all their turns are compared, unpaired, and it is said."""
    found = compare(arm("a", of=live("a")), arm("b", {7: "other"}, of=live("b")))
    assert (found.pairs, found.invalid) == (0, [])
    assert found.classes["error"].baseline.turns == found.classes["error"].candidate.turns == 40
    assert any("compared unpaired" in note for note in found.notes)


def test_live_traffic_that_was_asked_the_same_is_paired() -> None:
    """Two proxied runs in which every shared turn was the same request are paired like replays."""
    found = compare(arm("a", of=live("a")), arm("b", of=live("b")))
    assert (found.pairs, found.invalid) == (40, [])


def test_live_traffic_is_not_compared_with_a_replay() -> None:
    """A proxied run and a replay void the comparison by name."""
    found = compare(arm("a", of=live("a")), arm("b"))
    assert "different modes of replay: proxy and recorded" in found.invalid

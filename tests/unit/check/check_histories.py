"""Small histories to judge: manifests, records and engine samples made from what a test cares about."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from soak.check import ArmHistory, HistoryView, summarise, turn_facts
from soak.facts import (
    ArmCard,
    Attempt,
    Build,
    Comparison,
    CorpusCard,
    EngineSample,
    Expect,
    Judgement,
    Manifest,
    Observation,
    PlanCard,
    Record,
    Scenario,
    Summary,
    Thresholds,
    TurnKey,
    Usage,
)

TURNS_PER_EPISODE = 25


def manifest(
    arms: Iterable[str] = ("candidate",),
    *,
    build: Build | None = None,
    digest: str = "sha256:c",
    seed: int = 7,
    thresholds: Thresholds | None = None,
    expect: Expect | None = None,
    **scenario: Any,
) -> Manifest:
    """A manifest whose scenario differs from the defaults as said."""
    content = Scenario(
        name="swe_agent",
        question="?",
        duration="5 h",
        corpus="c",
        thresholds=thresholds or Thresholds(),
        expect=expect or Expect(),
        **scenario,
    )
    return Manifest(
        soak_version="0.1.0",
        created_at=0.0,
        scenario=msgspec.to_builtins(content),
        given={},
        seed=seed,
        corpus=CorpusCard(name="c", path="c", digest=digest, episodes=20, turns=500),
        arms=tuple(
            ArmCard(name=name, build=build or Build(engine="vllm", version=f"1-{name}", model="m", target="http://t"))
            for name in arms
        ),
        plan_digest="sha256:p",
    )


def key(index: int, arm: str = "candidate") -> TurnKey:
    """The index-th turn, 25 to an episode."""
    return TurnKey(episode=f"e{index // TURNS_PER_EPISODE:03}", turn=index % TURNS_PER_EPISODE, pass_=0, arm=arm)


def finished(index: int, class_: str = "ok", *, arm: str = "candidate", **fields: Any) -> Record:
    """A finished turn; `fields` change its observation."""
    at = key(index, arm)
    seen: dict[str, Any] = {
        "key": at,
        "started_at": float(index),
        "ending": "complete",
        "max_tokens": 20000,
        "finish_reason": "stop",
        "usage": Usage(prompt=1000, completion=200, cached=900),
        "attempts": (Attempt(started_at=0.0, took_ms=2000.0, status=200),),
        "ttft_ms": 100.0,
        "e2e_ms": 2000.0,
    }
    judgement = Judgement(class_=class_, reason=f"it is {class_}")  # type: ignore[arg-type]
    return Record(
        key=at, outcome="finished", at=0.0, observation=Observation(**{**seen, **fields}), judgement=judgement
    )


def unfinished(index: int, outcome: str, reason: str = "why", arm: str = "candidate") -> Record:
    """A skipped or indeterminate turn."""
    return Record(key=key(index, arm), outcome=outcome, at=0.0, reason=reason)  # type: ignore[arg-type]


def records(*found: Record) -> dict[TurnKey, Record]:
    """The last record per key."""
    return {record.key: record for record in found}


def arm_records(arm: str, turns: int, bad: Mapping[int, str] | None = None) -> dict[TurnKey, Record]:
    """`turns` finished turns of one arm, ok but for `bad`; a garbage loop takes 100 times as long."""
    return records(
        *(
            finished(
                i,
                (bad or {}).get(i, "ok"),
                arm=arm,
                e2e_ms=200_000.0 if (bad or {}).get(i) == "garbage_loop" else 2000.0,
            )
            for i in range(turns)
        )
    )


def summary(
    found: Mapping[TurnKey, Record],
    *,
    of: Manifest | None = None,
    samples: Mapping[str, list[EngineSample]] | None = None,
    state: str = "complete",
    planned: int | None = None,
    **view: Any,
) -> Summary:
    """The summary of a run of these records."""
    content = of or manifest()
    turns = planned if planned is not None else max(1, len(found) // len(content.arms))
    return summarise(
        content,
        HistoryView(turns=list(turn_facts(found.values())), samples=samples or {}, **view),
        run="runs/r",
        state=state,
        plan=PlanCard(episodes=20, turns=turns, passes=1, seed=7, hash="sha256:p"),
        wall_s=100.0,
    )


def two_readings(arm: str = "candidate", **moved: Any) -> list[EngineSample]:
    """Two engine samples between which the given counters rose from 0."""
    zero = {name: 0.0 if isinstance(value, float) else value for name, value in moved.items()}
    return [EngineSample(arm=arm, at=0.0, **zero), EngineSample(arm=arm, at=9.0, **moved)]


def side(arm: str, found: Mapping[TurnKey, Record], of: Manifest | None = None, **view: Any) -> ArmHistory:
    """One side of a comparison, from a run of its own."""
    content = of or manifest((arm,))
    own = {at: record for at, record in found.items() if at.arm == arm}
    judged = summary(own, of=content, **view)
    turns = list(turn_facts(own.values()))
    return ArmHistory(label=f"runs/{arm}", manifest=content, arm=arm, turns=turns, summary=judged.arms[arm])


def swap(comparison: Comparison) -> tuple[Any, ...]:
    """What must change places or sign when arms are swapped."""
    return tuple((found.candidate, found.baseline) for found in comparison.classes.values())

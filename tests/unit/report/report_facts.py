"""Facts to render: a summary, a comparison, a turn."""

from typing import Any

from soak.facts import (
    AcceptanceBand,
    AcceptanceDrift,
    AcceptanceGroup,
    ArmSummary,
    Attempt,
    Build,
    ClassComparison,
    Comparison,
    Discordant,
    EngineEvidence,
    EngineFinding,
    Events,
    Finding,
    Judgement,
    Observation,
    PlanCard,
    PrefixCache,
    Quantiles,
    Record,
    SeenInTurn,
    Speculation,
    Summary,
    TokenCounts,
    TurnCounts,
    TurnKey,
    Usage,
    WallClock,
    WorstTurn,
)

ACCEPTED = AcceptanceGroup(
    turns=40,
    drafts=100.0,
    draft_tokens=200.0,
    accepted_tokens=150.0,
    acceptance_length=2.5,
    acceptance_rate=0.75,
    exact=0.5,
)


def arm(text: str = "plain", **fields: Any) -> ArmSummary:
    """An arm with 2 bad turns of 40; `text` stands wherever foreign text can."""
    known: dict[str, Any] = {
        "build": Build(engine=text, version=text, model=text, target=text, speculative={"method": text}),
        "valid": True,
        "invalid_reasons": [],
        "turns": TurnCounts(
            planned=45,
            finished=40,
            ok=38,
            garbage_loop=2,
            early_stop=0,
            max_tokens=0,
            error=0,
            skipped=3,
            indeterminate=2,
        ),
        "wall_s": 600.0,
        "busy_s": {"ok": 1200.0, "garbage_loop": 400.0},
        "tokens": TokenCounts(prompt=1000, cached=500, completion=50000, usable=10000),
        "ttft_ms": Quantiles(p50=100.0, p95=900.0, p99=1500.0),
        "tpot_ms": Quantiles(p50=20.0, p95=21.0, p99=22.0),
        "e2e_ms": Quantiles(p50=2000.0, p95=9000.0, p99=200_000.0),
        "speculation": Speculation(acceptance_length=2.5, acceptance_rate=0.75, per_position=[0.9, 0.6]),
        "prefix_cache": PrefixCache(hit_rate=0.5, queries=1000.0, hits=500.0),
        "usable_tokens_per_s": 16.7,
        "evidence": EngineEvidence(
            alone=30,
            overlap=10,
            findings={"preemption": 1},
            seen=[SeenInTurn(turn=text, finding=EngineFinding(kind="preemption", text=text))],
            by_depth=[AcceptanceBand(low=0, high=1024, acceptance=ACCEPTED)],
            by_class={"ok": ACCEPTED, "garbage_loop": ACCEPTED},
            drift=AcceptanceDrift(unknown_because=text),
            alarms=[text],
        ),
        "rate": {"ok": 0.95, "garbage_loop": 0.05},
        "rate_upper95": {"ok": 0.99, "garbage_loop": 0.15},
        "skipped_reasons": {text: 3},
        "censored": 1,
        "worst": [WorstTurn(turn=f"{text}:1:0:candidate", class_="garbage_loop", reason=text, tokens=20000)],
    }
    return ArmSummary(**{**known, **fields})


def summary(text: str = "plain", **fields: Any) -> Summary:
    """A summary of one arm that fails."""
    known: dict[str, Any] = {
        "run": f"runs/{text}",
        "scenario": text,
        "verdict": "fail",
        "reasons": [f"rate is broken {text}"],
        "state": "complete",
        "plan": PlanCard(episodes=2, turns=45, passes=1, seed=7, hash="sha256:h"),
        "arms": {"candidate": arm(text)},
    }
    return Summary(**{**known, **fields})


def comparison(text: str = "plain", **fields: Any) -> Comparison:
    """11 → 7 of 500; `text` stands wherever foreign text can."""
    loop = ClassComparison(
        baseline=Events(events=11, turns=500),
        candidate=Events(events=7, turns=500),
        discordant=Discordant(baseline_only=8, candidate_only=4),
        difference=-0.008,
        ci95=(-0.0245, 0.0072),
        rate_ratio=0.636,
        rate_ratio_ci95=(0.26, 1.58),
        p_value=0.388,
        test="McNemar exact",
        turns_needed_80=4335,
        result="inconclusive",
        p_adjusted=0.388,
        both=3,
    )
    clock = WallClock(
        baseline_s=18000.0,
        candidate_s=14400.0,
        ratio=0.8,
        ci95=(0.7, 0.93),
        explained_by={"garbage_loop": -2900.0, "ok": -700.0},
        ratio_ok=0.95,
        ratio_ok_ci95=(0.9, 1.0),
        censored_pairs=2,
    )
    known: dict[str, Any] = {
        "baseline": f"runs/{text}",
        "candidate": f"runs/b{text}",
        "pairs": 500,
        "unpaired": 3,
        "clusters": 20,
        "classes": {"garbage_loop": loop},
        "wall_clock": clock,
        "invalid": [f"why {text}"],
        "verdict": "unknown",
        "sentence": f"Garbage 11 → 7 {text}",
    }
    return Comparison(**{**known, **fields})


def turn(text: str = "plain", content: str = "the answer", findings: tuple[Finding, ...] = (), **seen: Any) -> Record:
    """A finished garbage turn; `text` stands wherever foreign text can."""
    key = TurnKey(episode=text, turn=3, pass_=0, arm="candidate")
    known: dict[str, Any] = {
        "key": key,
        "started_at": 0.0,
        "ending": "complete",
        "max_tokens": 20000,
        "content": content,
        "finish_reason": text,
        "usage": Usage(prompt=1000, completion=20000, cached=None),
        "attempts": (Attempt(started_at=0, took_ms=9.0, status=200),),
        "error": text,
        "defects": (text,),
        "ttft_ms": 80.0,
        "e2e_ms": 200_000.0,
        "chunks": 7000,
    }
    judgement = Judgement(class_="garbage_loop", reason=text, findings=findings)
    return Record(key=key, outcome="finished", at=0, observation=Observation(**{**known, **seen}), judgement=judgement)

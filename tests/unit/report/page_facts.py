"""What a page is made of: two arms with their turns, and a comparison in which every field is measured."""

import math
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from report_facts import arm, comparison

from soak.facts import (
    ArmCard,
    Band,
    Build,
    Comparison,
    CorpusCard,
    Drift,
    Events,
    Evidence,
    Finding,
    Goodput,
    Judgement,
    LatencyComparison,
    Makespan,
    Manifest,
    Observation,
    QuantileEstimate,
    Quantiles,
    Rate,
    Record,
    Survival,
    SurvivalCurve,
    ToolCall,
    Trend,
    TrendTest,
    TurnCounts,
    TurnKey,
    Usage,
)
from soak.report import ReportArm, ReportTurn

UNIT = "\n    assert found == expected, repr(found)"


def record(index: int, class_: str, of: str, text: str = "", at: float = 0.0, **seen: Any) -> Record:
    """One finished turn, 25 to an episode; a garbage loop repeats `UNIT` 300 times after some sane text."""
    key = TurnKey(episode=f"{text}swe_agent-{index // 25:02}", turn=index % 25, pass_=0, arm=of)
    sane = (
        f"{text}Let me look at the failing test first.\n\ndef test_parse():\n    expected = 3\n    found = parse('1 2')"
    )
    loop = class_ == "garbage_loop"
    findings = (
        Finding(
            kind=f"loop{text}",
            onset_char=len(sane),
            onset_token=31,
            period_tokens=9,
            copies=300.0,
            covered=0.99,
            unit=UNIT,
            text=f"{text}the same 9 tokens 300 times in a row, to the cap",
        ),
    )
    known: dict[str, Any] = {
        "key": key,
        "started_at": at,
        "ending": "complete",
        "max_tokens": 20000,
        "content": sane + UNIT * 300 if loop else sane,
        "reasoning": f"{text}The user wants the parser fixed." if index % 2 else "",
        "tool_calls": (ToolCall(id="1", name=f"bash{text}", arguments='{"command": "ls"}' + text),)
        if index % 3
        else (),
        "finish_reason": "length" if loop else "stop",
        "usage": Usage(prompt=600 + 900 * (index % 25), completion=20000 if loop else 140, cached=500),
        "ttft_ms": 180.0,
        "e2e_ms": 190_000.0 if loop else 2600.0,
        "chunks": 90,
    }
    reason = f"{text}a loop of 9 tokens from token 31 to the cap" if loop else f"{text}it is {class_}"
    judgement = Judgement(class_=class_, reason=reason, findings=findings if loop else ())  # type: ignore[arg-type]
    return Record(key=key, outcome="finished", at=at, observation=Observation(**{**known, **seen}), judgement=judgement)


def report_arm(name: str, loops: int, errors: int = 1, turns: int = 500, text: str = "", **seen: Any) -> ReportArm:
    """An arm of `turns` turns with bad ones strewn over it; `text` stands wherever foreign text can."""
    chance = random.Random(f"{name}{loops}")
    order = chance.sample(range(turns), loops + errors + 2)
    classes = dict.fromkeys(order[:loops], "garbage_loop") | dict.fromkeys(order[loops : loops + errors], "error")
    classes |= {order[-1]: "early_stop", order[-2]: "max_tokens"}
    records = [record(i, classes.get(i, "ok"), name, text, at=1000.0 + 36.0 * i, **seen) for i in range(turns)]
    build = Build(
        engine="vllm",
        version=f"{text}0.32.0" if name == "baseline" else f"{text}0.32.1.dev7+g1a2b3c",
        model=f"{text}Qwen3.6-35B-A3B",
        speculative={"method": "mtp", "num_speculative_tokens": 2},
        target="http://127.0.0.1:8000",
        settings={"speculation": True, "prefix_cache": True, f"flag{text}": text or 1},
    )
    manifest = Manifest(
        soak_version="0.1.0",
        created_at=1_790_000_000.0,
        scenario={
            "name": f"{text}swe_agent",
            "sampling": {"temperature": 1.0, "top_p": 0.95},
            "load": {"in_flight": 8},
        },
        given={},
        seed=7,
        corpus=CorpusCard(name=f"{text}swe_agent", path="c", digest="sha256:" + "ab" * 32, episodes=20, turns=turns),
        arms=(ArmCard(name=name, build=build),),
        plan_digest="sha256:" + "cd" * 32,
        environment={"python": "3.11.9", "system": f"Linux x86_64{text}"},
    )
    counts = TurnCounts(
        planned=turns,
        finished=turns,
        ok=turns - loops - errors - 2,
        garbage_loop=loops,
        early_stop=1,
        max_tokens=1,
        error=errors,
        skipped=0,
        indeterminate=0,
    )
    summary = msgspec.structs.replace(
        arm(text),
        build=build,
        turns=counts,
        busy_s={"ok": 2.6 * counts.ok, "garbage_loop": 190.0 * loops, "error": 30.0, "max_tokens": 200.0},
        rate={
            name: getattr(counts, name) / turns for name in ("ok", "garbage_loop", "early_stop", "max_tokens", "error")
        },
        rate_upper95={"garbage_loop": 0.039, "error": 0.011, "early_stop": 0.011, "max_tokens": 0.011},
        ttft_ms=Quantiles(p50=180.0, p95=900.0, p99=2100.0),
        tpot_ms=Quantiles(p50=17.0, p95=22.0, p99=31.0),
        e2e_ms=Quantiles(p50=2600.0, p95=9000.0, p99=190_000.0),
    )
    run = f"runs/{text}{name}"
    return ReportArm(name=name, label=run, run=run, manifest=manifest, arm=name, summary=summary, **of_records(records))


def of_records(records: Sequence[Record]) -> dict[str, Any]:
    """What an arm of a page holds of these records."""
    turns = [
        ReportTurn(
            key=one.key,
            class_=one.judgement.class_ if one.judgement else one.outcome,
            tokens=one.observation.output_tokens if one.observation else None,
            prompt=one.observation.usage.prompt if one.observation and one.observation.usage else None,
            started_at=one.observation.started_at if one.observation else None,
        )
        for one in records
    ]
    return {"turns": turns, "record": {one.key: one for one in records}.get}


def two_arms(text: str = "", **seen: Any) -> tuple[ReportArm, ReportArm]:
    """A baseline with 11 loops of 500 turns and a candidate with 7."""
    return report_arm("baseline", 11, text=text, **seen), report_arm("candidate", 7, errors=3, text=text, **seen)


def measured_comparison(text: str = "", **fields: Any) -> Comparison:
    """11 → 7 of 500 with every field of the comparison filled; `text` stands wherever foreign text can."""
    plain = comparison(text, invalid=[], sentence=f"{text}{_SENTENCE}")
    loop = msgspec.structs.replace(
        plain.classes["garbage_loop"],
        baseline_rate=Rate(rate=0.022, ci95=(0.011, 0.039), upper95=0.036, anytime95=(0.006, 0.054)),
        candidate_rate=Rate(rate=0.014, ci95=(0.0056, 0.029), upper95=0.026, anytime95=(0.0025, 0.041)),
        evidence=Evidence(e_value=0.44, e_value_max=1.9, bar=40.0, conversations=20, path=_walk(1)),
    )
    errors = msgspec.structs.replace(
        loop,
        baseline=Events(events=1, turns=500),
        candidate=Events(events=3, turns=500),
        baseline_rate=None,
        candidate_rate=None,
        difference=0.004,
        ci95=(-0.006, 0.015),
        rate_ratio=3.0,
        rate_ratio_ci95=(0.44, 20.5),
        evidence=Evidence(e_value=0.8, e_value_max=1.1, bar=40.0, conversations=20, path=_walk(2)),
    )
    more = {
        "classes": {"garbage_loop": loop, "error": errors},
        "wall_clock": msgspec.structs.replace(
            plain.wall_clock,
            explained_by_part={"tokens": -2800.0, "speed": -500.0, "first_token": -250.0, "retries": 12.0},
            makespan=_MAKESPAN,
        ),
        "warnings": [f"the arms ran different versions{text}"],
        "notes": [f"garbage loops: 18 in 9 of 20 episodes{text}"],
        "builds": {"baseline": f"vllm 0.32.0{text}", "candidate": f"vllm 0.32.1{text}"},
        "latency": {name: _latency(scale) for name, scale in (("ttft_ms", 1.0), ("tpot_ms", 0.1), ("e2e_ms", 20.0))},
        "goodput": {"baseline": _goodput(41.0), "candidate": _goodput(52.5)},
        "survival": [_SURVIVAL],
        "trends": [_trend("depth_tokens", 5000.0), _trend("uptime_s", 3600.0)],
        "drift": {"baseline": Drift(tpot_percent_per_hour=0.4, ci95=(-0.2, 1.0))},
    }
    return msgspec.structs.replace(plain, **{**more, **fields})


_SENTENCE = (
    "Garbage loops 11 → 7 of 500 paired turns in 20 episodes (RR 0.64, 95 % 0.26–1.58; p = 0.39 by McNemar exact; 3"
    " failed in both). Not distinguishable from no change. At these rates 80 % power needs about 4,340 turns per arm;"
    " with 500 you could have seen 11 → 1. Turn time of the paired turns 5 h → 4 h (ratio 0.80, 95 % 0.70–0.93)."
)
_MAKESPAN = Makespan(
    in_flight=8,
    conversations=20,
    baseline_s=3000.0,
    candidate_s=2800.0,
    ratio=0.93,
    baseline_without_garbage_s=2600.0,
    candidate_without_garbage_s=2590.0,
    ratio_without_garbage=0.99,
    critical_change_s=-190.0,
)
_SURVIVAL = Survival(
    unit="turns",
    baseline=SurvivalCurve(conversations=20, failed=9, median=None, curve=[(2, 0.95), (7, 0.8), (15, 0.6), (22, 0.55)]),
    candidate=SurvivalCurve(conversations=20, failed=6, median=None, curve=[(4, 0.95), (9, 0.85), (20, 0.7)]),
    p_log_rank=0.29,
    p_value=0.34,
)


def _walk(seed: int) -> list[tuple[int, float]]:
    chance, path, at = random.Random(seed), [], 0.0
    for step in range(1, 41):
        at += chance.uniform(-0.35, 0.32)
        path.append((step * 12, math.exp(at)))
    return path


def _latency(scale: float) -> LatencyComparison:
    def side(faster: float) -> dict[str, QuantileEstimate]:
        return {
            name: QuantileEstimate(
                value=v * scale * faster, low95=v * scale * faster * 0.9, high95=v * scale * faster * 1.2
            )
            for name, v in (("p50", 180.0), ("p95", 900.0), ("p99", 2100.0))
        }

    return LatencyComparison(
        baseline=side(1.0),
        candidate=side(0.85),
        baseline_turns=498,
        candidate_turns=497,
        baseline_censored=0,
        candidate_censored=0,
        ratio=0.86,
        ratio_ci95=(0.8, 0.92),
    )


def _goodput(rate: float) -> Goodput:
    return Goodput(usable_tokens_per_s=rate, usable_tokens_per_busy_s=rate / 6, wasted_tokens=220_000)


def _trend(axis: Any, per_band: float) -> Trend:
    test = TrendTest(slope=0.001, slope_ci95=(-0.001, 0.003), p_value=0.3, p_independent=0.2)
    bands = [
        Band(
            low=per_band * step,
            high=per_band * (step + 1) if step < 4 else None,
            baseline=Events(events=step + 1, turns=100),
            candidate=Events(events=step // 2 + 1, turns=100),
        )
        for step in range(5)
    ]
    return Trend(axis=axis, per=1000.0, bands=bands, baseline=test, candidate=test)

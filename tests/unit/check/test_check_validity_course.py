"""What befell a run while it went on: a server that went away, turns left out or unjudged, our own lateness."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from check_histories import arm_records, finished, manifest, records, summary

from soak.facts import Attempt, Budget, EngineSample, Event, Record, Summary, Thresholds


def event(kind: str, arm: str | None = None, at: float = 0.0) -> Event:
    return Event(at=at, kind=kind, arm=arm)


def judged(events: Sequence[Event] = (), **fields: Any) -> Summary:
    return summary(arm_records("candidate", 40), events=tuple(events), **fields)


def test_a_server_that_went_away_leaves_the_arm_unknown() -> None:
    """Two absences of the arm's server are no pass, and the sentence counts them; another arm's are not its own."""
    found = judged([event("server_down", "candidate"), event("server_down", "candidate")])
    assert found.verdict == "unknown"
    assert found.reasons[0] == "the server went away 2 times; turns in flight then ended as error"
    assert judged([event("server_down", "other")]).verdict == "pass"


def test_a_silent_metrics_page_is_said_to_leave_a_gap() -> None:
    """The times without a reading are counted and added up, the last to the end of the run; another arm's are not."""
    events = [("metrics_silent", 10.0), ("metrics_back", 40.0), ("metrics_silent", 90.0), ("ended", 150.0)]
    found = judged([event(kind, None if kind == "ended" else "candidate", at) for kind, at in events])
    assert found.verdict == "pass"
    (told,) = [reason for reason in found.reasons if "metrics page" in reason]
    assert told.startswith("the engine's metrics page was silent 2 times, for 90 s in all: acceptance")
    assert not any("metrics page" in reason for reason in judged([event("metrics_silent", "other")]).reasons)


def test_a_silence_that_a_kill_cut_short_is_counted_without_its_length() -> None:
    """What a killed sitting did not see end is not added to the time of the next one."""
    events = [("metrics_silent", 10.0), ("resumed", 5000.0), ("ended", 6000.0)]
    found = judged([event(kind, "candidate" if kind == "metrics_silent" else None, at) for kind, at in events])
    assert any("was silent 1 time, for 0 s in all" in reason for reason in found.reasons)


def samples(*births: float, counter: Sequence[float] = ()) -> dict[str, list[EngineSample]]:
    """A reading every ten seconds of a process born then."""
    values = [*counter, *(float(i) for i in range(len(counter), len(births)))]
    return {
        "candidate": [
            EngineSample(arm="candidate", at=10.0 * i, prompt_tokens=values[i], process_start_at=born)
            for i, born in enumerate(births)
        ]
    }


def test_an_engine_that_was_restarted_leaves_the_arm_unknown() -> None:
    """A changed process start, or a counter that fell, is a restart, and the verdict is not pass."""
    changed = judged(samples=samples(1.0, 1.0, 2.0))
    fell = judged(samples=samples(1.0, 1.0, 1.0, counter=(5.0, 9.0, 3.0)))
    for found in (changed, fell):
        assert found.verdict == "unknown"
        assert "the engine was restarted 1 time during the run" in found.reasons
    assert judged(samples=samples(1.0, 1.0, 1.0)).verdict == "pass"


def test_a_restart_between_two_sittings_is_not_one_in_mid_run() -> None:
    """A resume starts a build that soak serves anew; that is told as a resume and takes nothing away."""
    between = judged([event("resumed", at=15.0)], samples=samples(1.0, 1.0, 2.0, 2.0))
    assert between.verdict == "pass"
    assert "the run was resumed 1 time" in between.reasons
    assert judged([event("resumed", at=15.0)], samples=samples(1.0, 1.0, 2.0, 3.0)).verdict == "unknown"


def test_a_broken_threshold_stays_broken_whatever_befell() -> None:
    """Errors above the limit are a fail also where the server went away."""
    gate = manifest(thresholds=Thresholds(pass_if=("rate.error <= 1%",)))
    bad = arm_records("candidate", 40, dict.fromkeys(range(9), "error"))
    assert summary(bad, of=gate, events=(event("server_down", "candidate"),)).verdict == "fail"


@pytest.mark.parametrize("budget", [Budget(turns=43), Budget(passes=1)])
def test_planned_turns_that_were_never_reached_leave_the_arm_unknown(budget: Budget) -> None:
    """A run called complete that left turns of a counted budget out did not do what was planned."""
    found = judged(of=manifest(budget=budget), planned=43)
    assert found.verdict == "unknown"
    assert "3 planned turns were never reached" in found.reasons


def test_what_a_time_budget_or_a_decision_leaves_out_is_no_fault() -> None:
    """Hours end where they end, and a run that its own evidence ended is complete without the rest."""
    assert judged(of=manifest(budget=Budget(hours=1)), planned=43).verdict == "pass"
    assert judged([event("decided")], of=manifest(budget=Budget(passes=1)), planned=43).verdict == "pass"


def test_a_turn_that_was_never_judged_leaves_the_arm_unknown() -> None:
    """A finished turn without a judgement is indeterminate, and even one of a hundred is named and is no pass."""
    unjudged: Record = msgspec.structs.replace(finished(99), judgement=None)
    found = summary({**arm_records("candidate", 99), **records(unjudged)})
    assert found.arms["candidate"].turns.indeterminate == 1
    assert found.verdict == "unknown"
    assert "1 turn finished without a judgement (counted as indeterminate)" in found.reasons


def retried(index: int) -> Record:
    refused = Attempt(started_at=0.0, took_ms=9.0, status=503, wait_s=1.0)
    return finished(index, attempts=(refused, Attempt(started_at=1.0, took_ms=2000.0, status=200)))


def test_turns_that_took_several_attempts_are_counted_and_told() -> None:
    """`retried_turns` counts turns and `attempts` exchanges; a threshold reaches the count by its path."""
    found = {**arm_records("candidate", 40), **records(retried(3), retried(7))}
    told = summary(found, of=manifest(thresholds=Thresholds(pass_if=("retried_turns <= 1",))))
    assert (told.arms["candidate"].retried_turns, told.arms["candidate"].attempts) == (2, 42)
    assert "2 turns took more than one attempt (42 attempts in all)" in told.reasons
    assert told.verdict == "fail"
    assert not any("attempt" in why for why in judged().reasons)


@pytest.mark.parametrize(
    ("lag_ms", "ttft_ms", "late"),
    [(251.0, 5000.0, True), (249.0, 5000.0, False), (51.0, 100.0, True), (49.0, 100.0, False), (251.0, None, True)],
)
def test_a_late_event_loop_is_told(lag_ms: float, ttft_ms: float | None, late: bool) -> None:
    """Above 250 ms, or half the median time to the first token, our own lateness is part of every latency."""
    found = records(*(finished(i, ttft_ms=ttft_ms, loop_lag_ms=lag_ms if i == 5 else 0.0) for i in range(40)))
    says = f"client-limited: our own event loop ran {lag_ms:.0f} ms late; latencies include that"
    assert (says in summary(found).reasons) is late

"""Verdicts, live stops and the numbers in sentences."""

import pytest

from soak.check import live_stop, merge, worse
from soak.check.wording import events_sentence, number, percent, percent_up, rounded_up, two_digits
from soak.facts import Thresholds


def test_verdicts_are_ordered_pass_unknown_fail() -> None:
    """The worse of two wins, and nothing judged is unknown."""
    assert worse("pass", "unknown") == "unknown"
    assert worse("unknown", "fail") == "fail"
    assert merge([]) == "unknown"
    assert merge(["pass", "fail", "unknown"]) == "fail"


def test_a_count_stops_at_once_and_a_rate_from_min_turns() -> None:
    """One bad turn of three breaks no rate yet; three of a count do."""
    stops = Thresholds(min_turns=30, stop_if=("rate.garbage_loop > 5%", "turns.error >= 3"))
    assert live_stop(stops, {"finished": 3, "garbage_loop": 1, "ok": 2}) is None
    assert "turns.error >= 3" in (live_stop(stops, {"finished": 3, "error": 3}) or "")
    assert "it is 0.1 after 30" in (live_stop(stops, {"finished": 30, "garbage_loop": 3, "ok": 27}) or "")
    assert live_stop(Thresholds(), {"finished": 1, "error": 1}) is None


def test_what_is_measured_at_the_end_stops_no_run() -> None:
    """A stop on latency has nothing to look at while only counts are known."""
    assert live_stop(Thresholds(stop_if=("e2e_ms.p50 > 1",)), {"finished": 100, "ok": 100}) is None


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.00997, "1.0 %"), (0.00598, "0.60 %"), (0.002991, "0.30 %"), (0.0, "0 %"), (1.0, "100 %")]
)
def test_an_upper_bound_is_rounded_up(fraction: float, text: str) -> None:
    """A bound is never printed tighter than it is."""
    assert percent_up(fraction) == text


def test_numbers_read_well() -> None:
    """Two digits for rates, three for turns, no false precision."""
    assert percent(0.022) == "2.2 %"
    assert rounded_up(4335) == "4,340"
    assert rounded_up(352) == "352"
    assert [number(v) for v in (None, 3.0, 61234.5, 0.12345)] == ["unknown", "3", "61234", "0.1235"]
    assert [two_digits(v) for v in (0.388, 0.0012, 1e-9, float("inf"))] == ["0.39", "0.001", "<0.0001", "∞"]
    assert [two_digits(v) for v in (999.5, 2117.43, 125208826.91)] == ["999.50", "2,117", ">1,000,000"]
    assert events_sentence("error", 0, 0) == "error 0 of 0 finished turns"

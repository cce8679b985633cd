"""Plots as elements of a page, and the bands they show."""

import re
import xml.etree.ElementTree as ET

import pytest
from page_facts import measured_comparison, of_records, record, report_arm, two_arms

from soak.report import bands, plots
from soak.report.plots import QuantilePoint, RatePoint

ARMS = ("baseline", "candidate")
POINTS = (RatePoint(11, 500, 0.011, 0.039), RatePoint(0, 500, 0.0, 0.006))
EVERY = {
    "rates": lambda: plots.rates_plot(ARMS, {"garbage_loop": POINTS, "error": (None, POINTS[0])}),
    "evidence": lambda: plots.evidence_plot(
        {"garbage_loop": [(10, 1.0), (20, 0.0)], "any_failure": [(1, 2), (9, 3)]}, 20.0
    ),
    "time": lambda: plots.time_plot(ARMS, [{"ok": 10.0, "error": 2.0}, {"ok": 9000.0}]),
    "change": lambda: plots.change_plot({"garbage_loop": -5.0, "speed": 2.0}),
    "bands": lambda: plots.bands_plot(ARMS, ("0–5k", "from 5k"), (POINTS, POINTS), "prompt tokens"),
    "latency": lambda: plots.latency_plot(
        ARMS, {"first token, p50": (QuantilePoint(180.0, 150.0), QuantilePoint(None))}
    ),
    "survival": lambda: plots.survival_plot(ARMS, ([(2.0, 0.9)], []), "turns"),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_plot_is_an_inert_element_in_the_colours_of_the_page(name: str) -> None:
    """Well-formed SVG without script, style element, metadata, outside reference, size or colour of its own."""
    svg = EVERY[name]()
    assert svg is not None
    root = ET.fromstring(svg)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "g", "defs", "path", "use", "text", "tspan", "clipPath", "rect"}
    assert not re.search(r"#[0-9a-f]{6}\b(?!\")", svg), "a colour that does not follow the page"
    assert all(value.startswith("#") for e in root.iter() for key, value in e.attrib.items() if key.endswith("href"))
    assert not {"width", "height"} & set(root.attrib)
    assert svg == EVERY[name](), "equal input gives an equal plot"


def test_a_plot_of_nothing_is_none() -> None:
    """Without turns, times or points there is no empty frame."""
    nothing = RatePoint(0, 0, 0.0, 1.0)
    assert plots.rates_plot(ARMS, {"error": (nothing, None)}) is None
    assert plots.evidence_plot({"error": [(1, 1.0)]}, 20.0) is None
    assert plots.time_plot(ARMS, [{}, {"ok": 0.0}]) is None
    assert plots.change_plot({"ok": 0.0}) is None
    assert plots.bands_plot(ARMS, ("0–5k",), ((nothing, nothing),), "x") is None
    assert plots.latency_plot(ARMS, {"p50": (QuantilePoint(None), QuantilePoint(None))}) is None
    assert plots.survival_plot(ARMS, ([], []), "x") is None


def test_depth_bands_hold_every_judged_turn_once() -> None:
    """Bands by prompt tokens have about equal numbers of turns, and lose none."""
    arms = two_arms()
    found = bands.depth_bands(arms)
    assert found is not None
    assert [sum(band[place].turns for band in found.points) for place in (0, 1)] == [500, 500]
    assert [sum(band[place].events for band in found.points) for place in (0, 1)] == [14, 12]
    assert found.labels[0].startswith("600–")
    assert found.labels[-1].startswith("from ")


def test_uptime_bands_count_from_each_arms_first_turn() -> None:
    """Six bands of equal time; a turn at the very start is in the first, the last one in the last."""
    found = bands.uptime_bands(two_arms())
    assert found is not None
    assert len(found.labels) == 6
    assert found.labels[0] == "0–50 min"
    assert sum(band[0].turns for band in found.points) == 500


def test_there_are_no_bands_where_nothing_was_measured() -> None:
    """Without usage, or with one turn alone, there is nothing to put into bands."""
    import dataclasses

    arm = dataclasses.replace(report_arm("A", 0), **of_records([record(0, "ok", "A", usage=None)]))
    assert bands.depth_bands([arm]) is None
    assert bands.uptime_bands([arm]) is None


def test_a_comparisons_own_intervals_are_shown() -> None:
    """Where the comparison states an interval the plot takes it, else it is Wilson's."""
    rates = bands.compared_rates(measured_comparison())
    assert rates["garbage_loop"][0] == RatePoint(11, 500, 0.011, 0.039)
    assert rates["error"][0] is not None
    assert rates["error"][0].low == pytest.approx(0.00035, abs=1e-4)

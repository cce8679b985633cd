"""A comparison as JUnit XML, read back as CI systems read it."""

import xml.etree.ElementTree as ET

import msgspec
from page_facts import measured_comparison
from report_facts import comparison

from soak.facts import Gate
from soak.report import junit_comparison

HOSTILE = "]]><failure>\x1b[31m\x00\u202e&amp;\"'<x>"


def cases(document: str) -> dict[str, ET.Element]:
    """The test cases by name."""
    return {case.get("name", ""): case for case in ET.fromstring(document).iter("testcase")}


def outcome(case: ET.Element) -> str:
    """How a case ended."""
    return next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")


def test_each_question_is_a_case_with_its_outcome() -> None:
    """An inconclusive class is skipped, a regression and a gate that holds fail, what was not measured errs."""
    found = measured_comparison()
    worse = msgspec.structs.replace(found.classes["error"], result="regression")
    equal = msgspec.structs.replace(found.classes["error"], result="equivalent")
    found = msgspec.structs.replace(found, classes={**found.classes, "error": worse, "max_tokens": equal})
    gates = [
        Gate(text="wall_clock.ratio > 0.5", holds=True, seen={"wall_clock.ratio": 0.8}),
        Gate(text="wall_clock.ratio > 2", holds=False, seen={"wall_clock.ratio": 0.8}),
        Gate(text="drift.candidate.ci95.0 > 1", holds=None, seen={"drift.candidate.ci95.0": None}),
    ]
    document = junit_comparison(found, gates)
    assert {name: outcome(case) for name, case in cases(document).items()} == {
        "the arms may be compared": "passed",
        "garbage_loop": "skipped",
        "error": "failure",
        "max_tokens": "passed",
        "wall_clock.ratio > 0.5": "failure",
        "wall_clock.ratio > 2": "passed",
        "drift.candidate.ci95.0 > 1": "error",
    }
    root = ET.fromstring(document)
    for element in (root, root[0]):
        assert {name: element.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
            "tests": "7",
            "failures": "2",
            "errors": "1",
            "skipped": "1",
        }


def test_an_invalid_comparison_errs_and_its_classes_are_skipped() -> None:
    """Nothing passes or fails where no conclusion may be drawn."""
    gate = Gate(text="wall_clock.ratio > 0.5", holds=True, seen={"wall_clock.ratio": 0.8})
    found = cases(junit_comparison(comparison(invalid=["different corpora"]), [gate]))
    assert outcome(found.pop("the arms may be compared")) == "error"
    assert {outcome(case) for case in found.values()} == {"skipped"}


def test_the_document_has_the_usual_shape() -> None:
    """testsuites > testsuite > properties, testcases with classname, name and time, then system-out."""
    root = ET.fromstring(junit_comparison(measured_comparison()))
    assert root.tag == "testsuites"
    (suite,) = root
    assert [child.tag for child in suite] == ["properties", "testcase", "testcase", "testcase", "system-out"]
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"classname", "name", "time"}
        assert len(case) <= 1
        assert all(said.get("message") for said in case if said.tag != "system-out")


def test_hostile_text_stays_text() -> None:
    """Labels, gates, reasons and notes with markup and control characters add no element and break no parser."""
    gates = [Gate(text=HOSTILE, holds=True, seen={HOSTILE: HOSTILE})]
    plain = junit_comparison(measured_comparison(), [Gate(text="x", holds=True, seen={"x": "x"})])
    hostile = junit_comparison(measured_comparison(HOSTILE), gates)
    assert [e.tag for e in ET.fromstring(hostile).iter()] == [e.tag for e in ET.fromstring(plain).iter()]
    texts = [value for e in ET.fromstring(hostile).iter() for value in (*e.attrib.values(), e.text or "", e.tail or "")]
    assert all(char.isprintable() or char == "\n" for text in texts for char in text)
    assert any("]]><failure>" in text for text in texts), "it is shown as it is"

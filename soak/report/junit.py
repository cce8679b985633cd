"""
A comparison as JUnit XML, the shape that CI systems read: one test case per question.

A case passes, fails (a regression, a gate that holds), errs (it could not be judged: an invalid comparison, a gate on
what was not measured) or is skipped (inconclusive). Foreign text has no control characters left, and is escaped by
`xml.etree`.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from soak.facts import ClassComparison, Comparison, Gate
from soak.report.comparison import class_row, evidence_lines, exposure, gate_line
from soak.report.escape import escape_terminal, one_line
from soak.report.style import Style

_LINE = 1000
_OUTCOMES = ("failure", "error", "skipped")


def junit_comparison(comparison: Comparison, gates: Sequence[Gate] = ()) -> str:
    """Return the comparison as one JUnit document: its validity, each class, each `--fail-on` condition."""
    suite = ET.Element("testsuite", name="soak compare", time="0")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(comparison):
        ET.SubElement(properties, "property", name=name, value=one_line(value, _LINE))
    _validity(suite, comparison)
    for name, found in comparison.classes.items():
        _class(suite, name, found, void=bool(comparison.invalid))
    for gate in gates:
        _gate(suite, gate, void=bool(comparison.invalid))
    ET.SubElement(suite, "system-out").text = escape_terminal(_text(comparison), keep_lines=True)
    whole = ET.Element("testsuites", name="soak", time="0")
    whole.append(suite)
    _count(suite, whole)
    ET.indent(whole)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(whole, encoding="unicode")}\n'


def _properties(comparison: Comparison) -> list[tuple[str, str]]:
    return [
        ("baseline", comparison.baseline),
        ("candidate", comparison.candidate),
        ("verdict", comparison.verdict),
        ("verdict by evidence", comparison.verdict_by_evidence or comparison.verdict),
        ("exposure", exposure(comparison)),
        *((f"build.{one_line(name, 40)}", value) for name, value in comparison.builds.items()),
    ]


def _case(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=f"soak.{group}", name=one_line(name, 200), time="0")


def _outcome(case: ET.Element, kind: str, message: str, text: str = "") -> None:
    said = ET.SubElement(case, kind, message=one_line(message, _LINE))
    if kind != "skipped":
        said.set("type", "soak")
    said.text = escape_terminal(text, keep_lines=True) or None


def _validity(suite: ET.Element, comparison: Comparison) -> None:
    case = _case(suite, "validity", "the arms may be compared")
    if comparison.invalid:
        reasons = "\n".join(one_line(why, _LINE) for why in comparison.invalid)
        _outcome(case, "error", f"no conclusion may be drawn: {comparison.invalid[0]}", reasons)
    elif comparison.warnings:
        ET.SubElement(case, "system-out").text = "\n".join(one_line(text, _LINE) for text in comparison.warnings)


def _class(suite: ET.Element, name: str, found: ClassComparison, *, void: bool) -> None:
    case = _case(suite, "class", name)
    _, baseline, candidate, _, difference, ratio, p, corrected, result = class_row(name, found, Style(False))
    counts = (
        f"{baseline} → {candidate}; difference {difference} points; rate ratio {ratio}; p {p}, corrected {corrected}"
    )
    if void:
        _outcome(case, "skipped", f"no conclusion may be drawn: {counts}")
    elif found.result == "regression":
        _outcome(case, "failure", f"regression: {counts}", f"test: {found.test}")
    elif found.result == "inconclusive":
        _outcome(case, "skipped", f"inconclusive: {counts}")
    else:
        ET.SubElement(case, "system-out").text = f"{result}: {counts}"


def _gate(suite: ET.Element, gate: Gate, *, void: bool) -> None:
    case = _case(suite, "fail-on", gate.text)
    line = gate_line(gate)
    if void:
        _outcome(case, "skipped", f"no conclusion may be drawn: {line}")
    elif gate.holds is None:
        _outcome(case, "error", line)
    elif gate.holds:
        _outcome(case, "failure", line)
    else:
        ET.SubElement(case, "system-out").text = one_line(line, _LINE)


def _text(comparison: Comparison) -> str:
    return "\n".join([comparison.sentence, *evidence_lines(comparison), *comparison.details, *comparison.notes])


def _count(suite: ET.Element, whole: ET.Element) -> None:
    """Write how many cases there are, and how many of each outcome, into both headers."""
    cases = suite.findall("testcase")
    plural = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for element in (suite, whole):
        element.set("tests", str(len(cases)))
        for kind in _OUTCOMES:
            element.set(plural[kind], str(sum(case.find(kind) is not None for case in cases)))

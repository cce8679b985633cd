"""The page of the losslessness probe: verdict, e-processes, tests and the worst tokens."""

from soak.facts import LosslessFound
from soak.report.html import Section, Table, Verdict, figure, page_without_arms
from soak.report.lossless import TEST_HEADER, TOKEN_HEADER, notes_of, scored_line, test_row, token_row
from soak.report.plots import processes_plot

_BADGES = {"deviates": "fail", "no deviation found": "pass", "not enough tokens": "unknown"}


def lossless_page(found: LosslessFound, soak_version: str) -> str:
    """Return the page, whole in one file; all that came from a model or a server is escaped."""
    result = found.result
    verdict = Verdict(
        of=f"{found.sampled_by}, scored by {found.scored_by}",
        verdict=_BADGES[result.result],
        sentence=result.sentence,
        points=[("Before you read on", [line.strip() for line in notes_of(found)])],
    )
    svg = processes_plot(
        {name: tuple(zip(result.curve.tokens, path, strict=True)) for name, path in result.curve.log10_e.items()},
        result.curve.bar,
    )
    figures = figure("Evidence that may be looked at at any time", svg, scored_line(found))
    tests = Table(header=TEST_HEADER, rows=[[*test_row(test)[:-1], test.text] for test in result.tests])
    worst = Table(header=TOKEN_HEADER, rows=[token_row(token, found) for token in result.worst])
    sections = [
        Section(title="Evidence", anchor="evidence", figures=figures, tables=[tests] if result.tests else []),
        Section(
            title="The tokens hardest to believe",
            anchor="tokens",
            lines=[token.text for token in result.worst[:3]],
            tables=[worst] if result.worst else [],
        ),
    ]
    return page_without_arms("soak: losslessness", [verdict], sections, soak_version)

"""
Summaries, comparisons, turns, plans and corpora for people: as text for a terminal, markdown, HTML and JUnit.

May touch: facts, intervals from `stats`, and the outline of a plan. Pure: no I/O but its own templates, no clock. Who
prints or writes is somebody else. Everything a model, a server or a file said is hostile here: it passes through
`escape.py`, which leaves no control character, escape sequence or markup alive, and has a bounded length. The page
(`soak.report.html`) is imported on demand, for it needs the extra `report`.
"""

from soak.report.arms import ReportArm, ReportTurn
from soak.report.bisection import step_line, terminal_bisection
from soak.report.comparison import markdown_comparison, terminal_comparison
from soak.report.corpora import terminal_corpora, terminal_corpus, terminal_episode, terminal_import
from soak.report.escape import escape_markdown, escape_terminal, printable
from soak.report.grid import terminal_grid
from soak.report.junit import junit_comparison
from soak.report.lossless import terminal_lossless
from soak.report.plan import terminal_plan
from soak.report.probe import (
    outcomes_table,
    terminal_caches,
    terminal_diagnosis,
    terminal_divergence,
    terminal_probe_plan,
    terminal_repeats,
    terminal_repro,
    terminal_shrink,
)
from soak.report.run import terminal_summary
from soak.report.turn import terminal_turn, terminal_turn_list

__all__ = [
    "ReportArm",
    "ReportTurn",
    "escape_markdown",
    "escape_terminal",
    "junit_comparison",
    "markdown_comparison",
    "outcomes_table",
    "printable",
    "step_line",
    "terminal_bisection",
    "terminal_caches",
    "terminal_comparison",
    "terminal_corpora",
    "terminal_corpus",
    "terminal_diagnosis",
    "terminal_divergence",
    "terminal_episode",
    "terminal_grid",
    "terminal_import",
    "terminal_lossless",
    "terminal_plan",
    "terminal_probe_plan",
    "terminal_repeats",
    "terminal_repro",
    "terminal_shrink",
    "terminal_summary",
    "terminal_turn",
    "terminal_turn_list",
]

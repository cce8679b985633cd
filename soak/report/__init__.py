"""
Summaries, comparisons, turns, plans and corpora as text, for a terminal and for markdown. Who prints it is the cli.

May touch: facts, and the outline of a plan. Pure: no I/O, no clock. Everything a model, a server or a file said is
hostile here: it passes through `escape.py`, which leaves no control character, escape sequence or markup alive, and
has a bounded length.
"""

from soak.report.comparison import markdown_comparison, terminal_comparison
from soak.report.corpora import terminal_corpora, terminal_corpus, terminal_episode, terminal_import
from soak.report.escape import escape_markdown, escape_terminal, printable
from soak.report.plan import terminal_plan
from soak.report.run import terminal_summary
from soak.report.turn import terminal_turn, terminal_turn_list

__all__ = [
    "escape_markdown",
    "escape_terminal",
    "markdown_comparison",
    "printable",
    "terminal_comparison",
    "terminal_corpora",
    "terminal_corpus",
    "terminal_episode",
    "terminal_import",
    "terminal_plan",
    "terminal_summary",
    "terminal_turn",
    "terminal_turn_list",
]

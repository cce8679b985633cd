"""
Summaries, comparisons and turns as text: for a terminal and for markdown. Strings out; who prints them is the cli.

May touch: facts. Pure: no I/O, no clock. Everything a model, a server or a file said is hostile here: it passes through
`escape.py`, which leaves no control character, escape sequence or markup alive, and has a bounded length.
"""

from soak.report.comparison import markdown_comparison, terminal_comparison
from soak.report.escape import escape_markdown, escape_terminal
from soak.report.run import terminal_summary
from soak.report.turn import terminal_turn, terminal_turn_list

__all__ = [
    "escape_markdown",
    "escape_terminal",
    "markdown_comparison",
    "terminal_comparison",
    "terminal_summary",
    "terminal_turn",
    "terminal_turn_list",
]

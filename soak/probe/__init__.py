"""
One turn, asked again and again: what makes it fail, and what does not.

May touch: the target's API through `client`, judging through `classify`, intervals through `stats`, and a journal it is
handed. It starts no server and writes no file itself: `app.probe` opens benches (servers, each in one state) and
journals for it. Modules that decide (what to ask next, what the answers mean) are pure; `asking.py` alone sends.
"""

from soak.probe.allowance import Allowance
from soak.probe.asking import Ask, Asker, Keep
from soak.probe.cells import FIRST_REPEAT, Cell, cells_of
from soak.probe.gridded import found_by_grid
from soak.probe.outcomes import answer_of, outcomes_of
from soak.probe.question import body_of, seed_of

__all__ = [
    "FIRST_REPEAT",
    "Allowance",
    "Ask",
    "Asker",
    "Cell",
    "Keep",
    "answer_of",
    "body_of",
    "cells_of",
    "found_by_grid",
    "outcomes_of",
    "seed_of",
]

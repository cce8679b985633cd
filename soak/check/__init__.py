"""
Run checkers: a history in, a verdict out; two in, a comparison out. The only room that says pass, unknown or fail.

May touch: facts, the threshold language of `scenario`, and `stats`. Pure: no I/O, no clock, no randomness but seeded.
Three values: *pass* needs evidence, no evidence is *unknown*, and a checker that crashes makes its arm unknown.
Read `summary.py` (one run), then `compare.py` (two arms).
"""

from soak.check.attribution import Span
from soak.check.bisection import Due, bisection_of, due, rates_between
from soak.check.classes import ANY_FAILURE, CLASS_SETS
from soak.check.compare import ArmHistory, Stated, compare
from soak.check.conversations import ConversationFact
from soak.check.deciding import Allowed, Decider, Decision, Watcher
from soak.check.engine import EngineDelta, deltas
from soak.check.engine_evidence import turns_with_findings
from soak.check.engine_turns import spans_elsewhere
from soak.check.planning import Design, Pilot, PowerPlan, Question, pilot_of, plan_power
from soak.check.rate_deciding import RateDecider, odds
from soak.check.summary import HistoryView, scenario_of, summarise
from soak.check.thresholds import broken_stop, live_stop
from soak.check.turns import SEVERITY, TurnFact, final_turns, turn_facts
from soak.check.verdicts import Opinion, exit_code_of, merge, worse

__all__ = [
    "ANY_FAILURE",
    "CLASS_SETS",
    "SEVERITY",
    "Allowed",
    "ArmHistory",
    "ConversationFact",
    "Decider",
    "Decision",
    "Design",
    "Due",
    "EngineDelta",
    "HistoryView",
    "Opinion",
    "Pilot",
    "PowerPlan",
    "Question",
    "RateDecider",
    "Span",
    "Stated",
    "TurnFact",
    "Watcher",
    "bisection_of",
    "broken_stop",
    "compare",
    "deltas",
    "due",
    "exit_code_of",
    "final_turns",
    "live_stop",
    "merge",
    "odds",
    "pilot_of",
    "plan_power",
    "rates_between",
    "scenario_of",
    "spans_elsewhere",
    "summarise",
    "turn_facts",
    "turns_with_findings",
    "worse",
]

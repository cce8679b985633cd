"""
Scenario, episodes and seed → the ordered turns of a run, and when each may be sent.

Pure: no I/O, no clock, no state; the same input always gives the same plan, on any machine and Python version.
Resuming is the same plan minus what is done.
"""

from soak.plan.bisection import Search, Told, search
from soak.plan.canaries import asks_for_word, word_for
from soak.plan.outline import PlanOutline, describe
from soak.plan.pace import arrivals, in_flight_at, think_time_s
from soak.plan.plan import Conversation, Plan, arm_order, make_plan, turn_limit
from soak.plan.seeds import number_from, plan_digest, salt_for, seed_for
from soak.plan.shapes import Gap, abort_after, aside_for, filler, gaps, offset_for, siblings_of
from soak.plan.stress import marked_at, shapes_of

__all__ = [
    "Conversation",
    "Gap",
    "Plan",
    "PlanOutline",
    "Search",
    "Told",
    "abort_after",
    "arm_order",
    "arrivals",
    "aside_for",
    "asks_for_word",
    "describe",
    "filler",
    "gaps",
    "in_flight_at",
    "make_plan",
    "marked_at",
    "number_from",
    "offset_for",
    "plan_digest",
    "salt_for",
    "search",
    "seed_for",
    "shapes_of",
    "siblings_of",
    "think_time_s",
    "turn_limit",
    "word_for",
]

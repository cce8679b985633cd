"""
Scenario, episodes and seed → the ordered turns of a run, and when each may be sent.

Pure: no I/O, no clock, no state; the same input always gives the same plan, on any machine and Python version.
Resuming is the same plan minus what is done.
"""

from soak.plan.bisection import Search, Told, search
from soak.plan.outline import PlanOutline, describe
from soak.plan.pace import arrivals, in_flight_at, think_time_s
from soak.plan.plan import Conversation, Plan, arm_order, make_plan, turn_limit
from soak.plan.seeds import plan_digest, salt_for, seed_for

__all__ = [
    "Conversation",
    "Plan",
    "PlanOutline",
    "Search",
    "Told",
    "arm_order",
    "arrivals",
    "describe",
    "in_flight_at",
    "make_plan",
    "plan_digest",
    "salt_for",
    "search",
    "seed_for",
    "think_time_s",
    "turn_limit",
]

"""
YAML to `Scenario`: strict, with all problems at once, and the language of thresholds.

The only room that knows YAML and pydantic. May touch: the scenario files it is asked to read, nothing else.
"""

from soak.scenario.finding import available_scenarios, find_scenario
from soak.scenario.loading import Loaded, load_scenario
from soak.scenario.thresholds import condition_problem, parse_condition, parse_threshold, threshold_problem

__all__ = [
    "Loaded",
    "available_scenarios",
    "condition_problem",
    "find_scenario",
    "load_scenario",
    "parse_condition",
    "parse_threshold",
    "threshold_problem",
]

"""
YAML to `Scenario`, `BuildFile` and `Grid`: strict, with all problems at once, and the language of thresholds.

The only room that knows YAML and pydantic. May touch: the files it is asked to read, nothing else.
"""

from soak.scenario.builds import CARRIED_BUILDS, available_builds, find_build, load_build, names_a_build
from soak.scenario.finding import available_scenarios, find_scenario
from soak.scenario.grids import DEFAULT_GRID, find_grid
from soak.scenario.loading import Loaded, load_scenario
from soak.scenario.sampling import arm_sampling
from soak.scenario.thresholds import condition_problem, parse_condition, parse_threshold, threshold_problem

__all__ = [
    "CARRIED_BUILDS",
    "DEFAULT_GRID",
    "Loaded",
    "arm_sampling",
    "available_builds",
    "available_scenarios",
    "condition_problem",
    "find_build",
    "find_grid",
    "find_scenario",
    "load_build",
    "load_scenario",
    "names_a_build",
    "parse_condition",
    "parse_threshold",
    "threshold_problem",
]

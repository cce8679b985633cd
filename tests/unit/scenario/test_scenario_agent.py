"""What a scenario may say of agents and sandboxes."""

from pathlib import Path

import pytest

from soak.errors import ScenarioError
from soak.importers import find_tasks, load_tasks, tasks_as_corpus
from soak.plan import describe, make_plan
from soak.scenario import condition_problem, find_scenario, load_scenario, parse_condition


def problems(*changes: tuple[str, str]) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(find_scenario("swe_tasks"), changes)
    return caught.value.problems


def test_the_bundled_scenario_works_on_tasks() -> None:
    """`swe_tasks` is agent replay over the bundled tasks, walled in by bubblewrap."""
    scenario = load_scenario(find_scenario("swe_tasks")).scenario
    assert (scenario.replay, scenario.corpus, scenario.sandbox.kind) == ("agent", "swe_tasks", "bubblewrap")
    assert Path(find_scenario("swe_tasks")).parent.joinpath("tasks", "swe_tasks.jsonl").is_file()


def test_an_image_belongs_to_containers() -> None:
    """An image is for kind container alone, which does without where its tasks bring their own."""
    assert load_scenario(find_scenario("swe_tasks"), {"sandbox.kind": "container"}).scenario.sandbox.image is None
    assert "belongs to kind container" in problems(("sandbox.image", "python:3.11"))[0]


def test_an_agents_run_is_not_ended_by_paired_turns() -> None:
    """`decide` looks at paired turns, which an agent does not have."""
    assert "planned beforehand" in problems(("decide", "{}"))[0]


def test_thresholds_may_look_at_tasks() -> None:
    """A share of resolved tasks can be asked for in per cent, and a comparison's change in points."""
    loaded = load_scenario(find_scenario("swe_tasks"), {"thresholds.pass_if": '["tasks.resolved_rate >= 30%"]'})
    assert loaded.scenario.thresholds.pass_if == ("tasks.resolved_rate >= 30%",)
    assert parse_condition("tasks.result == regression or tasks.difference < -10%").any_of
    assert "tasks" in str(condition_problem("tasks.resolvd > 1"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("agent.step_limit", "0"), ("agent.loops_max", "1.5"), ("sandbox.processes", "1"), ("agent.colour", "red")],
)
def test_wrong_settings_are_named(key: str, value: str) -> None:
    """Values out of range and unknown keys are refused by name."""
    assert key in problems((key, value))[0]


def test_a_budget_of_turns_counts_tasks() -> None:
    """In the plan of an agent a turn is a task, whatever it takes: three turns are three tasks of 50 calls at most."""
    loaded = load_scenario(find_scenario("swe_tasks"), {"budget.turns": "3"})
    path = find_tasks("swe_tasks")
    outline = describe(make_plan(loaded.scenario, tasks_as_corpus(path, load_tasks(path)).episodes, ["a"]))
    assert (outline.turns, outline.task_turns_max, outline.requests, len(outline.first)) == (3, 50, 150, 3)

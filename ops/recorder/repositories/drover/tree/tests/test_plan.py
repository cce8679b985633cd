import json

import pytest

from drover import PlanError, load_plan
from drover.plan import make_plan


def test_plan():
    jobs, workers = make_plan({"workers": 2, "jobs": [{"name": "a", "priority": 3, "retries": {"attempts": 2}}, {"name": "b", "after": ["a"]}]})
    assert workers == 2
    assert [job.name for job in jobs] == ["a", "b"]
    assert (jobs[0].priority, jobs[0].retries.attempts, jobs[1].after) == (3, 2, ("a",))


@pytest.mark.parametrize(
    "jobs, message",
    [
        ([{"name": "a"}, {"name": "a"}], "two jobs are called a"), ([{"name": "a", "after": ["b"]}], "job a comes after b"), ([{"name": ""}], "needs a name"),
        ([{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}], "wait for each other: a, b"), ([{"name": "a", "after": ["a"]}], "wait for each other"),
        ([{"name": "a", "speed": 1}], "unknown key speed"), ([{"name": "a", "retries": {"often": 1}}], "unknown key in retries"),
        ([{"name": "a", "retries": {"attempts": 0}}], "at least one attempt"), (["a"], "needs a name"),
    ],
)
def test_wrong_plans(jobs, message):
    with pytest.raises(PlanError, match=message):
        make_plan({"jobs": jobs})


@pytest.mark.parametrize("data", [[], {}, {"jobs": 1}, {"jobs": [], "workers": 0}])
def test_no_plan(data):
    with pytest.raises(PlanError):
        make_plan(data)


def test_files(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps({"jobs": [{"name": "a"}]}))
    assert load_plan(tmp_path / "plan.json")[0][0].name == "a"
    with pytest.raises(PlanError, match="nowhere"):
        load_plan(tmp_path / "nowhere.json")

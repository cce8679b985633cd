"""Plans: JSON to jobs, with all checks that can be made before anything runs."""

import json
from pathlib import Path

from drover.errors import PlanError
from drover.job import Job, Retries

JOB_KEYS = {"name", "priority", "after", "retries", "takes_s", "fails"}
RETRY_KEYS = {"attempts", "first_s", "factor", "max_s"}


def load_plan(path):
    """Return (jobs, workers) of a plan file; raises PlanError with the name of the job that is wrong."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise PlanError(f"{path}: {problem}") from None
    return make_plan(data)


def make_plan(data):
    """Return (jobs, workers) of a plan as plain data."""
    if not isinstance(data, dict) or not isinstance(data.get("jobs"), list):
        raise PlanError("a plan is an object with a list of jobs")
    workers = data.get("workers", 1)
    if not isinstance(workers, int) or workers < 1:
        raise PlanError("workers must be at least 1")
    jobs = [_job(item) for item in data["jobs"]]
    check(jobs)
    return jobs, workers


def _job(item):
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name:
        raise PlanError(f"a job needs a name: {item!r}")
    unknown = set(item) - JOB_KEYS
    if unknown:
        raise PlanError(f"job {name}: unknown key {', '.join(sorted(unknown))}")
    retries = item.get("retries", {})
    if set(retries) - RETRY_KEYS:
        raise PlanError(f"job {name}: unknown key in retries: {', '.join(sorted(set(retries) - RETRY_KEYS))}")
    values = {key: value for key, value in item.items() if key not in ("retries", "after")}
    return Job(**values, after=tuple(item.get("after", ())), retries=Retries(**retries))


def check(jobs):
    """Raise PlanError for two jobs of one name, an unknown dependency, or a circle."""
    by_name = {}
    for job in jobs:
        if job.name in by_name:
            raise PlanError(f"two jobs are called {job.name}")
        by_name[job.name] = job
    for job in jobs:
        for name in job.after:
            if name not in by_name:
                raise PlanError(f"job {job.name} comes after {name}, which does not exist")
    done = set()
    while len(done) < len(jobs):
        ready = [job.name for job in jobs if job.name not in done and set(job.after) <= done]
        if not ready:
            left = ", ".join(sorted(set(by_name) - done))
            raise PlanError(f"these jobs wait for each other: {left}")
        done.update(ready)

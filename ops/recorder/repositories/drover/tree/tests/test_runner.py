import pytest

from drover import Job, JumpingClock, Retries, Runner


def run(jobs, workers=1):
    events = []
    runner = Runner(jobs, workers, JumpingClock(), lambda at, job, event: events.append((at, job.name, event)))
    return runner.run(), events


def test_one_job():
    counts, events = run([Job("a", takes_s=5)])
    assert counts == {"succeeded": 1}
    assert events == [(0, "a", "started"), (5, "a", "succeeded")]


def test_priorities():
    _, events = run([Job("low"), Job("high", priority=9), Job("mid", priority=5)])
    assert [name for _, name, event in events if event == "started"] == ["high", "mid", "low"]


@pytest.mark.parametrize("workers, end", [(1, 6), (2, 3), (3, 2), (10, 1)])
def test_workers(workers, end):
    _, events = run([Job(name) for name in "abcdef"], workers)
    assert events[-1][0] == end


def test_dependencies():
    _, events = run([Job("c", after=("a", "b")), Job("a", takes_s=2), Job("b", takes_s=3)], 2)
    assert events == [(0, "a", "started"), (0, "b", "started"), (2, "a", "succeeded"), (3, "b", "succeeded"), (3, "c", "started"), (4, "c", "succeeded")]


def test_a_retry_succeeds():
    counts, events = run([Job("a", fails=1, retries=Retries(attempts=3, first_s=10))])
    assert counts == {"succeeded": 1}
    assert events == [(0, "a", "started"), (1, "a", "failed"), (11, "a", "started"), (12, "a", "succeeded")]


@pytest.mark.parametrize("failures, pause", [(1, 10), (2, 20), (3, 40), (4, 60), (5, 60)])
def test_pauses(failures, pause):
    assert Retries(attempts=9, first_s=10, factor=2, max_s=60).pause_s(failures) == pause


def test_work_that_raises():
    seen = []

    def work(job):
        seen.append(job.attempt)
        if len(seen) < 3:
            raise RuntimeError("not yet")

    counts, _ = run([Job("a", work=work, retries=Retries(attempts=5))])
    assert counts == {"succeeded": 1}
    assert seen == [1, 2, 3]


def test_a_worker_is_free_during_a_pause():
    _, events = run([Job("a", fails=1, priority=1, retries=Retries(attempts=2, first_s=5)), Job("b", takes_s=2)])
    assert [(at, name) for at, name, event in events if event == "started"] == [(0, "a"), (1, "b"), (6, "a")]

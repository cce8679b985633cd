import itertools

import pytest

from drover import DueQueue, Job


def job(name, priority=0, due_at=0.0):
    return Job(name, priority=priority, due_at=due_at)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_priority_first(order):
    queue = DueQueue()
    jobs = [job("a", 3), job("b", 2), job("c", 1)]
    for index in order:
        queue.push(jobs[index])
    assert queue.names() == ["a", "b", "c"]
    assert [queue.pop().name for _ in range(3)] == ["a", "b", "c"]


def test_then_the_longest_due():
    queue = DueQueue()
    for name, due_at in (("late", 9.0), ("early", 1.0), ("mid", 5.0)):
        queue.push(job(name, due_at=due_at))
    assert queue.names() == ["early", "mid", "late"]


def test_length():
    queue = DueQueue()
    assert not queue
    queue.push(job("a"))
    assert len(queue) == 1

import json

import pytest

from drover import Job, Journal, JournalError, JumpingClock, Retries, Runner, recover
from drover.journal import read, summary


def write(path, *events):
    path.write_text("".join(json.dumps(dict(zip(("at", "job", "event", "attempt"), event))) + "\n" for event in events))
    return path


def test_everything_is_written(tmp_path):
    Runner([Job("a", fails=1, retries=Retries(attempts=2))], 1, JumpingClock(), Journal(tmp_path / "j")).run()
    assert [(event["event"], event["attempt"]) for event in read(tmp_path / "j")] == [("started", 1), ("failed", 1), ("started", 2), ("succeeded", 2)]


def test_recover(tmp_path):
    path = write(tmp_path / "j", (0, "a", "started", 1), (1, "a", "succeeded", 1), (1, "b", "started", 1), (2, "b", "failed", 1), (3, "b", "started", 2))
    jobs = [Job("a"), Job("b", retries=Retries(attempts=3)), Job("c")]
    assert recover(path, jobs) == ["b"]
    assert [(job.state, job.attempt) for job in jobs] == [("succeeded", 1), ("waiting", 1), ("waiting", 0)]


def test_damage(tmp_path):
    path = write(tmp_path / "j", (0, "a", "started", 1), (1, "a", "succeeded", 1))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:20], lines[1]]) + "\n")
    with pytest.raises(JournalError, match="line 2 is damaged"):
        read(path)
    path.write_text('{"event": "started", "job": "a", "attempt": 1, "at": 0}\n{"event": "sang", "job": "a"}\n')
    with pytest.raises(JournalError, match="line 2 is no event"):
        read(path)


def test_summary():
    events = [dict(zip(("at", "job", "event", "attempt"), event)) for event in ((0, "a", "started", 1), (2, "a", "failed", 1), (5, "a", "started", 2), (9, "a", "succeeded", 2))]
    assert summary(events) == [("a", 2, 1, "succeeded", 9)]

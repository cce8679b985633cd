"""The journal: one JSON line for each event, and what can be learnt from it after a crash."""

import json
from pathlib import Path

from drover.errors import JournalError

EVENTS = ("started", "succeeded", "failed", "skipped")


class Journal:
    """Appends events to a file; usable as `on_event` of a Runner."""

    def __init__(self, path):
        self.path = Path(path)

    def __call__(self, at, job, event):
        line = json.dumps({"at": at, "job": job.name, "event": event, "attempt": job.attempt})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def read(path):
    """Return the events of a journal; raises JournalError with the number of a damaged line."""
    events = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            event = json.loads(line)
        except ValueError:
            raise JournalError(f"line {number} is damaged: {line[:60]!r}") from None
        if not isinstance(event, dict) or event.get("event") not in EVENTS or "job" not in event:
            raise JournalError(f"line {number} is no event: {line[:60]!r}")
        events.append(event)
    return events


def recover(path, jobs):
    """
    Bring jobs into the state that the journal tells; return the names of those that were running.

    Succeeded, failed and skipped jobs are final. A job that was running is waiting again, and its next start is the same
    attempt.
    """
    last = {}
    for event in read(path):
        last[event["job"]] = event
    interrupted = []
    for job in jobs:
        event = last.get(job.name)
        if event is None:
            continue
        job.attempt = event["attempt"]
        if event["event"] == "started":
            job.attempt -= 1
            interrupted.append(job.name)
        elif event["event"] == "failed" and job.retries.pause_s(job.attempt) is not None:
            job.state = "waiting"
        else:
            job.state = event["event"]
    return interrupted


def summary(events):
    """Return one row per job: name, starts, failures, last event, seconds from its first start to its last event."""
    rows = {}
    for event in events:
        row = rows.setdefault(event["job"], {"starts": 0, "failures": 0, "first": event["at"], "last": None, "end": None})
        row["starts"] += event["event"] == "started"
        row["failures"] += event["event"] == "failed"
        row["last"], row["end"] = event["event"], event["at"]
    return [(name, row["starts"], row["failures"], row["last"], row["end"] - row["first"]) for name, row in rows.items()]

"""The loop that runs jobs."""

from drover.queue import DueQueue


class Runner:
    """Runs jobs on a number of workers; `on_event(at, job, event)` is told everything before it is acted upon."""

    def __init__(self, jobs, workers=1, clock=None, on_event=None):
        self.jobs = list(jobs)
        self.workers = workers
        self.clock = clock
        self.on_event = on_event or (lambda at, job, event: None)
        self.running = []
        self.pausing = []
        self.due = DueQueue()

    def run(self):
        """Run until nothing is left to do; return the number of jobs in each state."""
        self._release()
        while True:
            self._start()
            moment = self._next_moment()
            if moment is None:
                return self.counts()
            self.clock.wait_until(moment)
            self._finish()
            self._wake()
            self._release()

    def counts(self):
        """Return how many jobs are in which state."""
        counts = {}
        for job in self.jobs:
            counts[job.state] = counts.get(job.state, 0) + 1
        return counts

    def _release(self):
        """Make those waiting jobs due whose dependencies have succeeded."""
        succeeded = {job.name for job in self.jobs if job.state == "succeeded"}
        for job in self.jobs:
            if job.state == "waiting" and set(job.after) <= succeeded:
                self._make_due(job)

    def _make_due(self, job):
        job.state, job.due_at = "due", self.clock.now()
        self.due.push(job)

    def _start(self):
        """Start due jobs as long as there are free workers."""
        while self.due and len(self.running) < self.workers:
            job = self.due.pop()
            job.attempt += 1
            self._tell(job, "started")
            job.state, job.ends_at = "running", self.clock.now() + job.takes_s
            self.running.append(job)

    def _next_moment(self):
        """Return when something happens next, None if nothing does."""
        moments = [job.ends_at for job in self.running] + [job.due_at for job in self.pausing]
        return min(moments, default=None)

    def _finish(self):
        """Handle the running jobs that have ended."""
        now = self.clock.now()
        for job in [job for job in self.running if job.ends_at <= now]:
            self.running.remove(job)
            if not job.will_fail():
                self._tell(job, "succeeded")
                job.state = "succeeded"
                continue
            self._tell(job, "failed")
            pause = job.retries.pause_s(job.attempt)
            if pause is None:
                job.state = "failed"
            else:
                job.state, job.due_at = "pausing", now + pause
                self.pausing.append(job)

    def _wake(self):
        """Make those jobs due whose pause is over."""
        for job in [job for job in self.pausing if job.due_at <= self.clock.now()]:
            self.pausing.remove(job)
            job.state = "due"
            self.due.push(job)

    def _tell(self, job, event):
        self.on_event(self.clock.now(), job, event)

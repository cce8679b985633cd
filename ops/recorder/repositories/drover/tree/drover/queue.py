"""The jobs that are due, best first."""

import heapq


class DueQueue:
    """A priority queue; see rule 1 of the README for the order."""

    def __init__(self):
        self._heap = []

    def __len__(self):
        return len(self._heap)

    def push(self, job):
        """Add a job that is due (its `due_at` is set)."""
        heapq.heappush(self._heap, (-job.priority, job.due_at, job.name, job))

    def pop(self):
        """Return the job that is to start next."""
        return heapq.heappop(self._heap)[-1]

    def names(self):
        """Return the names in the order in which they would be popped."""
        return [item[-1].name for item in sorted(self._heap)]

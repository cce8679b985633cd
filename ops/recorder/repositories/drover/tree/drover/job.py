"""Jobs and their retry rules."""

from dataclasses import dataclass, field

from drover.errors import PlanError


@dataclass(frozen=True)
class Retries:
    """How often a job is started in all, and the pauses between."""

    attempts: int = 1
    first_s: float = 1.0
    factor: float = 2.0
    max_s: float = 300.0

    def __post_init__(self):
        if self.attempts < 1:
            raise PlanError("a job needs at least one attempt")
        if self.first_s < 0 or self.factor < 1 or self.max_s < 0:
            raise PlanError("pauses must not be negative and must not shrink")

    def pause_s(self, failures):
        """Return the pause after the given number of failures, or None if there is no attempt left."""
        if failures > self.attempts:
            return None
        return min(self.max_s, self.first_s * self.factor ** (failures - 1))


@dataclass
class Job:
    """One job: what it is, and what has become of it. `work(job)` raises to fail; `takes_s` is for simulations."""

    name: str
    priority: int = 0
    after: tuple = ()
    retries: Retries = field(default_factory=Retries)
    takes_s: float = 1.0
    fails: int = 0
    work: object = None
    state: str = "waiting"
    attempt: int = 0
    due_at: float | None = None
    ends_at: float | None = None

    FINAL = ("succeeded", "failed", "skipped")

    @property
    def is_final(self):
        return self.state in self.FINAL

    def will_fail(self):
        """Whether the current attempt fails: by the simulation's count, or because `work` raises."""
        if self.work is not None:
            try:
                self.work(self)
            except Exception:
                return True
            return False
        return self.attempt <= self.fails

"""Jobs with priorities, retries, dependencies and cron times, in one process."""

from drover.clock import JumpingClock, WallClock
from drover.cron import Cron
from drover.errors import DroverError, JournalError, PlanError
from drover.job import Job, Retries
from drover.journal import Journal, recover
from drover.plan import load_plan
from drover.queue import DueQueue
from drover.runner import Runner

__all__ = [
    "Cron", "DroverError", "DueQueue", "Job", "Journal", "JournalError", "JumpingClock", "PlanError", "Retries", "Runner", "WallClock",
    "load_plan", "recover",
]

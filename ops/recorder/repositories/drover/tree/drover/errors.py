"""Errors for people."""


class DroverError(Exception):
    """Anything a person can act on."""


class PlanError(DroverError):
    """A plan cannot be run; the message names the job."""


class JournalError(DroverError):
    """A journal is damaged; the message names the line."""

"""Limits of this machine that a run of ours could meet, looked at before the first request."""

import resource

from soak.errors import UsageError

# What a run opens besides its streams: history, logs, metrics, the event loop, and connections that are closing.
BESIDES_STREAMS = 128


def make_room_for_streams(in_flight: int, arms: int) -> None:
    """
    Raise this process's limit on open files to what the run needs.

    Raises `UsageError` where the system does not allow it: our own limit must not be met in mid-run, where it would
    look like a server that refuses connections.
    """
    needed = in_flight * arms + BESIDES_STREAMS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"{in_flight} conversations at once need {needed} open files",
            why=f"this process may open {hard}",
            hint="raise the limit (ulimit -n), or lower load.in_flight",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))

"""`soak serve`: start one build as `run` would, and keep it until told to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.app.sides import LOCAL_NAME
from soak.errors import UsageError
from soak.launch import LOCAL, Progress, RunningServer, prepare, start


@contextmanager
def serve(
    build: str, *, port: int | None, log_path: Path, report: Callable[[Progress], None]
) -> Iterator[RunningServer]:
    """Yield the running server of `build` and stop it afterwards; raises `UsageError`, `LaunchError`."""
    if build != LOCAL_NAME:
        raise UsageError(f"there is no build named {build}", why="known builds: local", hint="soak serve local")
    with start(prepare(LOCAL, report), log_path=log_path, port=port, report=report) as server:
        yield server

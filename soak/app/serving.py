"""`soak serve`: start one build as `run` would, and keep it until told to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.launch import Progress, RunningServer, prepare, spec_of, start
from soak.scenario import find_build


@contextmanager
def serve(
    build: str, *, port: int | None, log_path: Path, report: Callable[[Progress], None]
) -> Iterator[RunningServer]:
    """
    Yield the running server of `build` (a name or the path of a build file) and stop it afterwards.

    Raises `BuildFileError`, `LaunchError`, and `UsageError` for a build that is a URL.
    """
    with start(prepare(spec_of(find_build(build)), report), log_path=log_path, port=port, report=report) as server:
        yield server

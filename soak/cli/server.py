"""`soak serve` and `soak doctor`."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from soak.app.doctoring import Diagnosis, examine
from soak.app.serving import serve
from soak.cli.door import command, out, say
from soak.cli.steps import StepView
from soak.facts import encode
from soak.launch import Death, Progress, RunningServer
from soak.report import escape_terminal

_MARKS = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("serve", epilog="Example: soak serve local --port 8000")(command(serve_command))
    app.command("doctor", epilog="Example: soak doctor --target http://localhost:8000")(command(doctor_command))


def serve_command(
    build: Annotated[
        str, typer.Argument(metavar="BUILD", help="A build's name (`soak doctor` lists them) or its file's path.")
    ] = "local",
    port: Annotated[int | None, typer.Option(help="Port on 127.0.0.1; default: a free one.")] = None,
    log: Annotated[Path, typer.Option(help="Where the engine's log goes.")] = Path("engine.log"),
) -> int:
    """Start one build in the foreground, as `run` would. Ctrl-C stops it."""
    with _steps() as report, serve(build, port=port, log_path=log, report=report) as server:
        out(server.url)
        say(f"serving {server.build.model}; log: {log}; Ctrl-C stops it")
        while (death := server.death()) is None or _restarted(server, death):
            time.sleep(0.5)
    say(f"the server ended by itself: {death.why}")
    return 5


def _restarted(server: RunningServer, death: Death) -> bool:
    """Start a server that died again, if its build allows one more start, and return whether it did."""
    if not server.may_restart:
        return False
    say(f"the server died after {death.served_s:.0f} s: {escape_terminal(death.why)}; it is started again")
    say(f"it serves again after {server.restart():.0f} s")
    return True


def doctor_command(
    target: Annotated[str | None, typer.Option(help="URL of a server that runs; default: SOAK_TARGET.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name; default: the only one the server lists.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> int:
    """Say what is there, what is missing and how to mend it. With --target also what a server is and can do."""
    target = target or os.environ.get("SOAK_TARGET") or None
    diagnosis = examine(target, model=model, api_key=os.environ.get("SOAK_API_KEY") or None)
    out(encode(diagnosis).decode() if as_json else _text(diagnosis))
    return 5 if diagnosis.problems else 0


def _text(diagnosis: Diagnosis) -> str:
    lines = []
    for check in diagnosis.checks:
        lines.append(f"{_MARKS[check.state]} {check.name}: {escape_terminal(check.text)}")
        if check.fix and check.state != "ok":
            lines.append(f"        do: {escape_terminal(check.fix)}")
    return "\n".join(lines)


@contextmanager
def _steps() -> Iterator[Callable[[Progress], None]]:
    """Yield what shows each step of starting a build."""
    view = StepView(Console(stderr=True, highlight=False))

    def report(progress: Progress) -> None:
        view.preparing(progress.step, progress.detail, progress.elapsed_s, ended=progress.ended)

    try:
        yield report
    finally:
        view.close()

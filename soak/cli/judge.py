"""`soak check`, `soak compare`, `soak show`, `soak classify`: verdicts on what is stored or given; no server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from soak.app.classifying import classify_lines
from soak.app.comparing import compare_runs
from soak.app.judging import Rejudging, check_run
from soak.app.showing import list_turns, show_turn
from soak.check import exit_code_of
from soak.cli.door import command, out
from soak.errors import TranscriptError, UsageError
from soak.facts import encode
from soak.report import (
    markdown_comparison,
    terminal_comparison,
    terminal_summary,
    terminal_turn,
    terminal_turn_list,
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("check", epilog="Example: soak check runs/swe_agent-20260101-120000-9f3a --json")(
        command(check_command)
    )
    app.command("compare", epilog="Example: soak compare runs/before runs/after --markdown")(command(compare_command))
    app.command("show", epilog="Example: soak show runs/mine smoke-1:2:0:candidate")(command(show_command))
    app.command("classify", epilog="Example: soak classify answers.jsonl --json")(command(classify_command))


def check_command(
    run_dir: RunArgument,
    classify: Annotated[
        list[str] | None, typer.Option("--classify", help="Change a classifier setting: name=number.")
    ] = None,
    pass_if: Annotated[
        list[str] | None, typer.Option("--pass-if", help="Judge by these instead: --pass-if 'rate.error <= 1%'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.summary/1 on stdout.")] = False,
) -> int:
    """Judge a stored run again, with this soak's classifiers and other thresholds if given; needs no server."""
    summary = check_run(
        run_dir, Rejudging(classify=_numbers(classify or []), pass_if=tuple(pass_if) if pass_if else None)
    )
    out(encode(summary).decode() if as_json else terminal_summary(summary))
    return exit_code_of(summary)


def compare_command(
    baseline: Annotated[Path, typer.Argument(help="The baseline's run folder, or a run with two arms.")],
    candidate: Annotated[Path | None, typer.Argument(help="The candidate's run folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.comparison/1 on stdout.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print markdown to paste into a pull request.")] = False,
) -> int:
    """Set two arms side by side: failure counts, wall clock, and whether the difference means anything."""
    if as_json and markdown:
        raise UsageError(
            "--json and --markdown were both given", why="stdout holds one document", hint="give one of them"
        )
    comparison = compare_runs(baseline, candidate)
    if as_json:
        out(encode(comparison).decode())
    else:
        out(markdown_comparison(comparison) if markdown else terminal_comparison(comparison))
    return exit_code_of(comparison)


def show_command(
    run_dir: RunArgument,
    turn: Annotated[str | None, typer.Argument(help="A turn's key: episode:turn:pass:arm.")] = None,
    class_: Annotated[str | None, typer.Option("--class", help="Only turns of this class or outcome.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the kept bytes of the turn's stream instead.")] = False,
) -> int:
    """List the turns of a run, or print one with its evidence marked in the text."""
    if turn is None:
        out(terminal_turn_list(list_turns(run_dir, class_)))
        return 0
    shown = show_turn(run_dir, turn)
    if not raw:
        out(terminal_turn(shown.record, shown.prefix, shown.reference, raw=shown.raw))
        return 0
    if shown.raw is None:
        raise UsageError(
            f"no raw bytes are kept of {turn}", why="they are kept of bad turns only", hint="leave out --raw"
        )
    sys.stdout.buffer.write(shown.raw)
    return 0


def classify_command(
    file: Annotated[str, typer.Argument(help="A JSONL file of answers, or - for stdin.")] = "-",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line (else: id, class, reason).")
    ] = False,
) -> int:
    """Judge answers given as JSONL, one a line; no server, no run."""
    with _lines(file) as lines:
        for result in classify_lines(lines, "stdin" if file == "-" else file):
            out(encode(result).decode() if as_json else f"{result['id']}\t{result['class']}\t{result['reason']}")
    return 0


@contextmanager
def _lines(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except OSError as error:
        raise TranscriptError(
            f"{file} cannot be read", why=error.strerror or str(error), hint="check the path"
        ) from error


def _numbers(texts: list[str]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            numbers[name] = float(value)
        except ValueError:
            raise UsageError(
                f"--classify {text} cannot be read",
                why="it is not name=number",
                hint="soak/classify/README.md lists them",
            ) from None
    return numbers

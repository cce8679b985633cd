"""`soak check`, `compare`, `report`, `show`, `classify`: verdicts on what is stored or given; no server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import msgspec
import typer

from soak.app.classifying import classify_lines
from soak.app.comparing import Compared, compare_runs
from soak.app.judging import Rejudging, check_run
from soak.app.reporting import comparison_page, page_tools, refuse_unwritable, report_arms, runs_page, write_file
from soak.app.showing import list_turns, show_turn
from soak.check import Stated, exit_code_of
from soak.cli.door import command, out, out_bytes, say, terminal
from soak.errors import TranscriptError, UsageError
from soak.facts import encode
from soak.report import (
    junit_comparison,
    markdown_comparison,
    terminal_comparison,
    terminal_summary,
    terminal_turn,
    terminal_turn_list,
)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write one self-contained page: plots and bad turns.")
]


_CLASSIFY_EXAMPLE = (
    "Example: soak classify answers.jsonl --json, where a line is"
    ' {"id": "1", "output": "the the the", "finish_reason": "length", "max_tokens": 4096}'
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("check", epilog="Example: soak check runs/swe_agent-20260101-120000-9f3a --json")(
        command(check_command)
    )
    app.command("compare", epilog="Example: soak compare runs/before runs/after --markdown")(command(compare_command))
    app.command("report", epilog="Example: soak report runs/mine --html report.html")(command(report_command))
    app.command("show", epilog="Example: soak show runs/mine smoke-1:2:0:candidate")(command(show_command))
    app.command("classify", epilog=_CLASSIFY_EXAMPLE)(command(classify_command))


def check_command(
    run_dir: RunArgument,
    classify: Annotated[
        list[str] | None,
        typer.Option("--classify", metavar="NAME=NUMBER", help="Change a classifier setting. Repeatable."),
    ] = None,
    pass_if: Annotated[
        list[str] | None,
        typer.Option("--pass-if", metavar="EXPR", help="Judge by this instead: 'rate.error <= 1%'. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.summary/1 on stdout.")] = False,
) -> int:
    """Judge a stored run again; no server. With this soak's classifiers, and other settings and thresholds if given."""
    summary = check_run(
        run_dir, Rejudging(classify=_numbers(classify or []), pass_if=tuple(pass_if) if pass_if else None)
    )
    out(encode(summary).decode() if as_json else terminal_summary(summary, **terminal()))
    return exit_code_of(summary)


def compare_command(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="The baseline's run folder, or a run with two arms.")
    ],
    candidate: Annotated[Path | None, typer.Argument(metavar="CANDIDATE", help="The candidate's run folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print soak.comparison/1 on stdout.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print markdown to paste into a pull request.")] = False,
    html: HtmlOption = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML: one case a class and gate.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="EXPR",
            help="A condition over the --json fields, such as 'classes.error.result == regression' or"
            " 'wall_clock.ratio > 110% and classes.error.difference > 0'. Repeatable. Exit 1 if one holds (or any class"
            " is a regression), 3 if one looks at what was not measured or the comparison is invalid, else 0.",
        ),
    ] = None,
    margin: Annotated[
        str | None, typer.Option("--margin", help="The largest difference of rates that does not matter: 0.5%.")
    ] = None,
    time_margin: Annotated[
        str | None, typer.Option("--time-margin", help="The largest change of turn time that does not matter: 5%.")
    ] = None,
    ttft_limit_ms: Annotated[
        float | None, typer.Option("--ttft-limit-ms", min=0, help="Goodput: first token within this time.")
    ] = None,
    tpot_limit_ms: Annotated[
        float | None, typer.Option("--tpot-limit-ms", min=0, help="Goodput: time per token within this.")
    ] = None,
) -> int:
    """Compare two arms: failures, wall clock, and what they prove. Two runs, or one with two arms."""
    if as_json and markdown:
        raise UsageError(
            "--json and --markdown were both given", why="stdout holds one document", hint="give one of them"
        )
    for file in filter(None, (html, junit)):
        refuse_unwritable(file)
    if html is not None:
        page_tools()
    stated = Stated(
        margin=_fraction("--margin", margin),
        time_margin=_fraction("--time-margin", time_margin),
        ttft_limit_ms=ttft_limit_ms,
        tpot_limit_ms=tpot_limit_ms,
    )
    compared = compare_runs(baseline, candidate, fail_on=fail_on or (), stated=stated)
    out(_printed(compared, as_json=as_json, markdown=markdown))
    if junit is not None:
        _write(junit, junit_comparison(compared.comparison, compared.gates))
    if html is not None:
        _write(html, comparison_page(compared))
    return exit_code_of(compared.comparison)


def _printed(compared: Compared, *, as_json: bool, markdown: bool) -> str:
    comparison, gates = compared.comparison, compared.gates
    if as_json:
        return encode({**msgspec.to_builtins(comparison), "gates": gates}).decode()
    if markdown:
        return markdown_comparison(comparison, gates, report_arms(compared))
    return terminal_comparison(comparison, gates=gates, **terminal())


def _write(path: Path, text: str) -> None:
    write_file(path, text)
    say(f"written: {path}")


def report_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="One or more run folders.")],
    html: HtmlOption = None,
) -> int:
    """Write a page on one or more runs. Two arms in all are also compared."""
    if html is None:
        raise UsageError("no file was named", why="a report is a page", hint="add --html FILE")
    refuse_unwritable(html)
    _write(html, runs_page(runs))
    return 0


def show_command(
    run_dir: RunArgument,
    turn: Annotated[str | None, typer.Argument(metavar="TURN", help="A turn's key: episode:turn:pass:arm.")] = None,
    class_: Annotated[str | None, typer.Option("--class", help="Only turns of this class or outcome.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the kept bytes of the turn's stream instead.")] = False,
) -> int:
    """List a run's turns, or print one with its evidence marked."""
    if turn is None:
        out(terminal_turn_list(list_turns(run_dir, class_), **terminal()))
        return 0
    shown = show_turn(run_dir, turn)
    if not raw:
        kept = None if shown.raw is None else len(shown.raw)
        out(
            terminal_turn(
                shown.record, shown.prefix, shown.reference, engine=shown.engine, raw_bytes=kept, **terminal()
            )
        )
        return 0
    if shown.raw is None:
        raise UsageError(
            f"no raw bytes are kept of {turn}", why="they are kept of bad turns only", hint="leave out --raw"
        )
    out_bytes(shown.raw)
    return 0


def classify_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A JSONL file of answers, or - for stdin.")] = "-",
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


def _fraction(option: str, text: str | None) -> float | None:
    """Return a share given as `0.5%` or `0.005`."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UsageError(
            f"{option} {text} cannot be used", why="it is no share between 0 and 1", hint=f"{option} 0.5% or 0.005"
        )
    return value


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

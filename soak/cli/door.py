"""How every command ends: an exit code, and for an error three lines on stderr; a traceback only with --debug."""

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypedDict

import typer

from soak.errors import LaunchError, SoakError
from soak.report import escape_terminal

P = ParamSpec("P")
INTERRUPTED = 130
OUR_FAULT = 70  # sysexits' EX_SOFTWARE: outside the contract's codes, so that a bug of ours never reads as a verdict

_debug = False


def set_debug(on: bool) -> None:
    """Show tracebacks of errors from now on."""
    global _debug
    _debug = on


def command(function: Callable[P, int]) -> Callable[P, None]:
    """Turn a function that returns an exit code into a typer command that ends the process with it."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(guarded(lambda: function(*args, **kwargs)))

    return run


def guarded(act: Callable[[], int]) -> int:
    """Return the exit code of `act`; errors become three lines and their code."""
    try:
        return act()
    except SoakError as error:
        if _debug:
            traceback.print_exc()
        print("\n".join(map(escape_terminal, (*_last_words(error), *error.lines()))), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except (OSError, MemoryError) as error:
        if _debug:
            traceback.print_exc()
        text = escape_terminal(" ".join(str(error).split()))
        print(f"error: {error.__class__.__name__}: {text}", file=sys.stderr)
        print("  why: the operating system refused it\n   do: see the message; --debug shows where", file=sys.stderr)
        return OUR_FAULT
    except Exception as error:
        traceback.print_exc()
        print(f"error: soak itself failed: {error.__class__.__name__}", file=sys.stderr)
        print("  why: this is a bug in soak, and no verdict on anything", file=sys.stderr)
        print("   do: report it with the lines above; a run goes on with `soak resume`", file=sys.stderr)
        return OUR_FAULT


def _last_words(error: SoakError) -> tuple[str, ...]:
    """Return the last lines of the log of a build that failed; they stand above the three lines, which name the log."""
    tail = error.log_tail if isinstance(error, LaunchError) else ()
    return ("the log ends:", *(f"  | {line}" for line in tail)) if tail else ()


class Terminal(TypedDict):
    """What the renderers of `report` are told about where their text goes."""

    width: int
    colour: bool


def terminal() -> Terminal:
    """Return the width and colour of stdout: 100 columns and none where it is no terminal."""
    if not sys.stdout.isatty():
        return {"width": 100, "colour": False}
    return {"width": shutil.get_terminal_size((100, 24)).columns, "colour": "NO_COLOR" not in os.environ}


def say(text: str = "") -> None:
    """Print for people: to stderr, so that --json leaves stdout to the document."""
    print(text, file=sys.stderr)


def out(text: str) -> None:
    """Print a result to stdout."""
    print(text)
    sys.stdout.flush()


def out_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are; if whoever read them is gone, the rest is dropped."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stdout.flush()  # a patient stream notices, and leads nowhere from now on

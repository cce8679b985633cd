"""The command line `soak`: one typer application, commands in the modules beside this one."""

import sys
from typing import Annotated

import typer

from soak import __version__
from soak.cli import bisect, corpora, judge, planning, probe, proxy, repro, run, server
from soak.cli.door import set_debug
from soak.cli.streams import make_patient

app = typer.Typer(
    name="soak",
    help="Replay long agent conversations against LLM inference servers, judge every turn, compare builds.",
    epilog="Example: soak run --scenario swe_agent --minutes 5",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(show: bool) -> None:
    if show:
        print(f"soak {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[  # noqa: ARG001 - eager: its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Replay long agent conversations against LLM inference servers, judge every turn, compare builds."""
    set_debug(debug)


for module in (run, judge, probe, repro, planning, bisect, corpora, proxy, server):
    module.register(app)


def main() -> None:
    """Run the command line; the exit codes are those of the contract."""
    make_patient()
    sys.exit(app(standalone_mode=True))

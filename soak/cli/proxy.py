"""`soak proxy`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from soak.app.proxying import ProxyOrder, ProxyResult, Recorded, finish_recording, proxy
from soak.app.run import RunResult
from soak.cli.door import command, out, say
from soak.cli.run import JsonFlag, LogJsonFlag, render
from soak.cli.together import under_views
from soak.errors import RunFolderError, UsageError
from soak.facts import encode

_LISTEN = "127.0.0.1:8900"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("proxy", epilog="Example: soak proxy --target http://localhost:8000 --listen 127.0.0.1:8900")(
        command(proxy_command)
    )


def proxy_command(
    target: Annotated[
        str | None,
        typer.Option("--target", "--upstream", help="URL of the server, or a build (`local`). Default: SOAK_TARGET."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help=f"HOST:PORT to listen on; default {_LISTEN}. Port 0 takes a free one.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port alone, on 127.0.0.1.")] = None,
    run_dir: Annotated[
        Path | None, typer.Option("--run", help="Where to keep the run; default: runs/proxy-TIME.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write the conversations as a corpus here when the proxy is stopped.")
    ] = None,
    finish: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Listen to nothing: write the corpus of a proxied run that was killed."),
    ] = None,
    token_ids: Annotated[
        bool, typer.Option("--token-ids", help="Ask for token ids: the one way in which a request is changed.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="The model's name in the report, if the server lists several.")
    ] = None,
    pass_if: Annotated[
        list[str] | None,
        typer.Option("--pass-if", metavar="EXPR", help="What the run is judged by: 'rate.error <= 1%'. Repeatable."),
    ] = None,
    min_turns: Annotated[int, typer.Option(min=1, help="Fewer finished turns than this are no evidence.")] = 30,
    drain_s: Annotated[
        float, typer.Option(min=0, help="Seconds that requests in flight have once it is stopped.")
    ] = 120,
    as_json: JsonFlag = False,
    log_json: LogJsonFlag = False,
) -> int:
    """Pass live traffic on untouched, judge each turn, keep a run. Any client, any server; judged as it streams."""
    if finish is not None:
        return _finish(finish, record, as_json=as_json)
    host, number = _address(listen, port)
    order = ProxyOrder(
        target=_target(target),
        host=host,
        port=number,
        model=model,
        api_key=os.environ.get("SOAK_API_KEY") or None,
        folder=run_dir,
        record=record,
        token_ids=token_ids,
        pass_if=tuple(pass_if or ()),
        min_turns=min_turns,
        drain_s=drain_s,
    )
    if host not in ("127.0.0.1", "::1", "localhost"):
        say(f"listening on {host}: whoever reaches it can use the server behind it with a key of their own")
    return _render(under_views(lambda audience: proxy(order, audience), log_json=log_json), as_json=as_json)


def _finish(run: Path, record: Path | None, *, as_json: bool) -> int:
    if record is None:
        raise UsageError("nothing is to be written", why="--finish needs --record DIR", hint="name a new folder")
    recorded = finish_recording(run, record)
    if as_json:
        out(encode(recorded.card).decode())
    _say_recorded(recorded, record)
    return 0


def _render(result: ProxyResult, *, as_json: bool) -> int:
    """Print the summary and what was recorded; what could not be kept is an error, whatever the verdict."""
    code = render(RunResult(folder=result.folder, summary=result.summary), as_json=as_json)
    if result.recorded is not None:
        _say_recorded(result.recorded, Path(result.recorded.card.path))
    if result.unrecorded is not None:
        say(f"no recording was written: {result.unrecorded}")
    if result.lost is not None:
        raise RunFolderError(
            "not all that passed was recorded",
            why=result.lost,
            hint=f"free some space and start again with another --run; {result.folder} holds what came before",
        )
    return code


def _say_recorded(recorded: Recorded, folder: Path) -> None:
    told = recorded.told
    say(f"recording: {folder}: {told.episodes} conversations, {told.turns} turns, {told.unanswered} without an answer")
    for reason, count in told.left_out.items():
        say(f"  left out {count}: {reason}")
    say(f"replay it: soak run --scenario smoke --set corpus={folder} --target URL")


def _target(given: str | None) -> str:
    target = given or os.environ.get("SOAK_TARGET")
    if not target:
        raise UsageError(
            "there is no server to pass traffic on to",
            why="neither --target nor SOAK_TARGET is given",
            hint="soak proxy --target http://localhost:8000, or --target local for the embedded build",
        )
    return target


def _address(listen: str | None, port: int | None) -> tuple[str, int]:
    """Return host and port; raises `UsageError` for what cannot be read."""
    if listen is not None and port is not None:
        raise UsageError("both --listen and --port were given", why="they name the same thing", hint="give one of them")
    text = listen if listen is not None else f"127.0.0.1:{port}" if port is not None else _LISTEN
    host, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdecimal() and int(number) < 65536):
        raise UsageError(f"--listen {text} cannot be read", why="it is not HOST:PORT", hint=f"--listen {_LISTEN}")
    return host.strip("[]") or "127.0.0.1", int(number)

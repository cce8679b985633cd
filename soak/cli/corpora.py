"""`soak import` and `soak corpus`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from soak.app.corpora import corpora, corpus, import_into, problems_of
from soak.app.exporting import export_corpus
from soak.cli.door import command, out, say
from soak.errors import CorpusError, UsageError
from soak.facts import encode
from soak.importers import SourceReport
from soak.report import escape_terminal, terminal_corpora, terminal_corpus, terminal_episode, terminal_import

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("import", epilog="Example: soak import session.traj.json --into transcripts/mine")(
        command(import_command)
    )
    group = typer.Typer(
        help="Look at corpora: episodes, turns, depth, licence, hash.",
        epilog="Example: soak corpus list",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("list", epilog="Example: soak corpus list")(command(list_command))
    group.command("show", epilog="Example: soak corpus show swe_agent")(command(show_command))
    group.command("check", epilog="Example: soak corpus check transcripts/mine")(command(check_command))
    group.command("export", epilog="Example: soak corpus export swe_agent --format aiperf -o payloads")(
        command(export_command)
    )
    app.add_typer(group, name="corpus")


def import_command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Foreign transcripts: files, folders, agentperf-local, or hf://ORG/NAME[@REVISION][/CONFIG][:SPLIT].",
        ),
    ],
    into: Annotated[Path, typer.Option("--into", help="The corpus folder to write.")],
    format_: Annotated[str | None, typer.Option("--format", help="Do not guess the format; take this one.")] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Replace e-mail addresses, home folders, keys and tokens.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="What its rows call what is read: messages=chat,id=uid.", metavar="OURS=ITS"),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Exchange a corpus that is there already.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """
    Turn foreign transcripts into a corpus. Says what was read, dropped and repaired, and why.

    Exit code 4 if a file could not be read to its end; what could be read is in the corpus all the same.
    """
    names = _columns(columns)
    report = import_into(sources, into, format_, redact=redact, columns=names, replace=replace)
    out(encode(report).decode() if as_json else f"{terminal_import(report)}\n{_found(report)}")
    say(f"\ncorpus: {into}\nlook at it: soak corpus show {into}")
    return _told_of_broken(report)


def _columns(text: str | None) -> dict[str, str]:
    """Return the names in `--columns`: ours → theirs."""
    names: dict[str, str] = {}
    for pair in (text or "").split(",") if text is not None else ():
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (ours and equals and theirs) or ours in names:
            raise UsageError(
                f"--columns {text} cannot be read",
                why=f"{pair!r} is not of the form ours=theirs, or names a column twice",
                hint="for instance: --columns messages=conversation,id=uid",
            )
        names[ours] = theirs
    return names


def _told_of_broken(reports: Sequence[SourceReport]) -> int:
    """Say which files were not read to their end; return the exit code."""
    broken = [one for report in reports for one in report.broken]
    if not broken:
        return 0
    error = CorpusError(
        f"{len(broken)} of the files could not be read to their end; the corpus holds the rest",
        why="; ".join(f"{one.place}: {one.why}" for one in broken[:5]),
        hint="mend or leave out these files and import again with --replace, or go on with what was read",
    )
    say("\n".join(map(escape_terminal, ("", *error.lines()))))
    return error.exit_code


def _found(reports: Sequence[SourceReport]) -> str:
    """Return what was found in all sources together, and what was replaced."""
    calls, results = sum(one.tool_calls for one in reports), sum(one.tool_results for one in reports)
    characters, kept = sum(one.characters for one in reports), sum(one.kept.characters for one in reports)
    redacted = Counter[str]()
    for one in reports:
        redacted.update(one.redacted)
    lines = [f"found: {calls:,} tool calls, {results:,} results, {characters:,} characters ({kept:,} in the corpus)"]
    lines += [f"redacted {number:,}: {kind}" for kind, number in redacted.items()]
    return "\n".join(lines)


def list_command(as_json: JsonFlag = False) -> int:
    """List the corpora that a scenario can name."""
    found = corpora()
    out(encode(found).decode() if as_json else terminal_corpora(found))
    return 0


def show_command(
    name: Annotated[str, typer.Argument(metavar="DIR", help="A corpus's name or folder.")],
    episode: Annotated[
        str | None, typer.Argument(metavar="EPISODE", help="Only this episode, message by message.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Show a corpus: its episodes, or one episode message by message."""
    found = corpus(name)
    if episode is None:
        document = {"corpus": found.outline, "episodes": found.episodes}
        out(encode(document).decode() if as_json else terminal_corpus(found.outline, found.episodes))
        return 0
    chosen = next((one for one in found.corpus.episodes if one.id == episode), None)
    if chosen is None:
        raise CorpusError(f"{name} has no episode {episode}", why="the id is unknown", hint=f"soak corpus show {name}")
    out(encode(chosen).decode() if as_json else terminal_episode(chosen))
    return 0


def check_command(
    name: Annotated[str, typer.Argument(metavar="DIR", help="A corpus's name or folder.")],
    as_json: JsonFlag = False,
) -> int:
    """Check a corpus: format, links, calls without results. Exit code 4 if it cannot be replayed."""
    problems = problems_of(name)
    out(
        encode(problems).decode()
        if as_json
        else "\n".join(f"{p.severity}: {p.episode} {p.text}" for p in problems) or "ok"
    )
    return 4 if any(problem.severity == "problem" for problem in problems) else 0


def export_command(
    name: Annotated[str, typer.Argument(metavar="DIR", help="A corpus's name or folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; for aiperf the folder.")],
    episode: Annotated[str | None, typer.Argument(metavar="EPISODE", help="Only this episode.")] = None,
    turn: Annotated[int | None, typer.Argument(metavar="TURN", help="Only this turn of it, counted from 0.")] = None,
    format_: Annotated[
        str, typer.Option("--format", help="openai (request bodies, JSONL), aiperf (raw payloads), vllm (multi-turn).")
    ] = "openai",
    model: Annotated[str | None, typer.Option("--model", help="Ask for this model, not the recorded one.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an earlier export.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write a corpus, or a part of it, for another tool. Says what its form cannot carry."""
    done = export_corpus(name, output, format_, episode=episode, turn=turn, model=model, replace=replace)
    told = [f"{done.path}: {done.conversations:,} conversations, {done.requests:,} requests ({done.format})"]
    told += [f"  lost or changed {number:,}: {reason}" for reason, number in done.lost.items()]
    out(encode(done).decode() if as_json else "\n".join(map(escape_terminal, told)))
    return 0

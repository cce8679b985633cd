"""Arguments and exit codes: 0 fine, 1 the input or an expression is wrong, 2 the arguments are wrong."""

import argparse
import sys

from tablekit import __version__
from tablekit.errors import TablekitError
from tablekit.group import group, parse_aggregates
from tablekit.render import as_csv, as_markdown, as_text
from tablekit.table import Table


def build_parser():
    parser = argparse.ArgumentParser(prog="tablekit", description="Look at delimited files.")
    parser.add_argument("file", help="the file to read, or - for standard input")
    parser.add_argument("--delimiter", help=r"one character, or \t (default: found by looking)")
    parser.add_argument("--where", metavar="EXPRESSION", help="keep the rows for which this holds")
    parser.add_argument("--sort", metavar="COLUMNS", help="sort by columns, with - before a name for descending")
    parser.add_argument("--group", metavar="COLUMNS", help="one row for each combination of these columns")
    parser.add_argument("--agg", metavar="LIST", default="count", help="aggregates for --group, such as count,sum:total")
    parser.add_argument("--columns", metavar="COLUMNS", help="print only these columns")
    parser.add_argument("--limit", type=int, metavar="N", help="print only the first N rows")
    parser.add_argument("--decimals", type=int, default=2, metavar="N", help="decimals of floats (default 2)")
    parser.add_argument("--format", choices=["text", "markdown", "csv"], default="text")
    parser.add_argument("--types", action="store_true", help="print the columns and their types, then stop")
    parser.add_argument("--version", action="version", version=f"tablekit {__version__}")
    return parser


def main(argv=None):
    """Run the command line; return the exit code."""
    options = build_parser().parse_args(argv)
    try:
        sys.stdout.write(run(options))
    except TablekitError as error:
        print(f"tablekit: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"tablekit: {options.file}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def run(options):
    """Return what the options ask for as text."""
    table = Table.from_text(_read(options.file), _delimiter(options.delimiter))
    if options.types:
        return "".join(f"{column.name}\t{column.kind}\n" for column in table.columns)
    if options.where:
        table = table.where(options.where)
    if options.group:
        table = group(table, _names(options.group), parse_aggregates(options.agg))
    if options.sort:
        table = table.sort(_names(options.sort))
    if options.limit is not None:
        table = table.limit(options.limit)
    if options.columns:
        table = table.select(_names(options.columns))
    if options.format == "markdown":
        return as_markdown(table, options.decimals)
    if options.format == "csv":
        return as_csv(table)
    return as_text(table, options.decimals)


def _read(name):
    if name == "-":
        return sys.stdin.read()
    with open(name, encoding="utf-8", newline="") as file:
        return file.read()


def _delimiter(text):
    return "\t" if text == r"\t" else text


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()]

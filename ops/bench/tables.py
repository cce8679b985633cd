"""
Tables on a page of markdown, between marks, computed anew: one writer for every page that says what was measured.

A table stands between `<!-- NAME: made by … -->` (or `<!-- NAME -->`) and `<!-- end -->`, each mark a line of its own.
A script gives its page and its tables to `main`, which prints them, or with `--check` exits with 1 where the page says
something else, or with `--write` puts them there. Scripts of this folder import it as `tables`.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Tables = Mapping[str, Callable[[], str]]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(text: str, tables: Tables, where: str = "the page") -> str:
    """Return the text of a page with each table between its marks computed anew; exits where a place is not there."""
    for name, computed in tables.items():
        marks = re.compile(rf"(<!-- {re.escape(name)}(?:: [^\n]*)? ?-->\n).*?(<!-- end -->)", re.DOTALL)
        places = list(marks.finditer(text))
        if len(places) != 1:
            raise SystemExit(f"{where} has {len(places)} places for the table {name!r}")
        begin, end = places[0].end(1), places[0].start(2)
        text = f"{text[:begin]}\n{computed()}\n\n{text[end:]}"
    return text


def carry_out(page: Path, tables: Tables, *, write: bool) -> None:
    """Put the tables into the page, or exit with 1 where it says something else."""
    text = page.read_text("utf-8")
    computed = filled(text, tables, page.name)
    if write:
        page.write_text(computed, "utf-8")
    elif computed != text:
        sys.exit(f"{page} does not say what was computed; write it with --write")


def main(about: str | None, page: Path, tables: Tables, stale: Callable[[], str] = str) -> None:
    """
    Carry out a script's command line: print, check or write its tables.

    `stale` returns what keeps kept results from being those of the present code, "" where nothing does; asked by
    `--check` only.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.check and (why := stale()):
        sys.exit(why)
    if args.check or args.write:
        carry_out(page, tables, write=args.write)
    else:
        print("\n\n".join(computed() for computed in tables.values()))

"""
The table of `ops/runbooks/which-setting.md`: what the grid said of faults planted in a real vLLM, from kept figures.

    python ops/bench/grid_page.py            print it
    python ops/bench/grid_page.py --check    exit 1 if the page says something else
    python ops/bench/grid_page.py --write    put it into the page

The figures are those of `ops/bench/planted_grid.py`.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ops" / "runbooks" / "which-setting.md"
RESULT = Path(__file__).parent / "results" / "planted_grid.json"
HEAD = ("planted", "named", "by seed, of", "otherwise", "loops: with both", "speculation", "cache", "neither")
CELLS = ("with_spec-with_cache", "with_spec-no_cache", "no_spec-with_cache", "no_spec-no_cache")


def table(found: dict[str, Any]) -> str:
    """Return the table of these figures, with a line on where they come from."""
    rows = [_row(one, found["plan"]["repeats"]) for one in found["faults"].values()]
    lines = [HEAD, tuple("---" for _ in HEAD), *rows]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", _source(found)])


def _row(one: dict[str, Any], repeats: int) -> tuple[str, ...]:
    asked = repeats * one["seeds"]
    rightly = one["named_rightly"] if one["expected"] else one["named"]
    rest = [(said, seeds) for said, seeds in one["said"].items() if said != one["expected"]]
    return (
        f"`{one['planted']}`" if one["planted"] else "nothing",
        one["expected"] or "anything",
        f"{rightly} of {one['seeds']}",
        ", ".join(f"{seeds} {said}" for said, seeds in rest),
        *(f"{one['failed'][cell] / asked:.0%}" for cell in CELLS),
    )


def _source(found: dict[str, Any]) -> str:
    server, plan = found["servers"][CELLS[0]], found["plan"]
    engine = f"{server['engine']} {server['version'] or ''}".strip()
    return (
        f"{engine}, {server['model']}; {found['answers']:,} answers of at most {plan['max_tokens']} tokens, "
        f"{plan['repeats']} in each cell; {found['tokens']:,} tokens."
    )


def filled(page: str) -> str:
    """Return the page with the table between its marks made anew."""
    said = table(json.loads(RESULT.read_text()))
    marks = re.compile(r"(<!-- planted grid: [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
    page, count = marks.subn(lambda match: f"{match[1]}\n{said}\n\n{match[2]}", page)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has {count} places for the table")
    return page


def main() -> None:
    """Print, check or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.check or args.write:
        page = PAGE.read_text()
        made = filled(page)
        if args.write:
            PAGE.write_text(made)
        elif made != page:
            sys.exit(f"{PAGE} does not say what the figures say; write it with --write")
    else:
        print(table(json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()

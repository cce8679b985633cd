"""
The table of `ops/runbooks/which-setting.md`: what the grid said of faults planted in a real vLLM, from kept figures.

    python ops/bench/grid_page.py            print it
    python ops/bench/grid_page.py --check    exit 1 if the page says something else
    python ops/bench/grid_page.py --write    put it into the page

The figures are those of `ops/bench/planted_grid.py`.
"""

import json
from pathlib import Path
from typing import Any

import tables

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ops" / "runbooks" / "which-setting.md"
RESULT = Path(__file__).parent / "results" / "planted_grid.json"
HEAD = ("planted", "named", "by seed, of", "otherwise", "loops: with both", "speculation", "cache", "neither")
CELLS = ("with_spec-with_cache", "with_spec-no_cache", "no_spec-with_cache", "no_spec-no_cache")


def table(found: dict[str, Any]) -> str:
    """Return the table of these figures, with a line on where they come from."""
    rows = [_row(one, found["plan"]["repeats"]) for one in found["faults"].values()]
    return "\n".join([tables.table(HEAD, rows), "", _source(found)])


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


def _kept() -> str:
    return table(json.loads(RESULT.read_text()))


if __name__ == "__main__":
    tables.main(__doc__, PAGE, {"planted grid": _kept})

"""The difference of two environment cards, for a terminal and for markdown, and one arm's card on a line."""

from collections.abc import Iterator

from soak.facts import CardDifference, CardRow, EnvironmentCard
from soak.report.escape import escape_markdown, one_line
from soak.report.figures import UNKNOWN
from soak.report.table import markdown_table, terminal_table

CARD_HEADER = ("differs", "baseline", "candidate")
_ROWS_SHOWN = 16
_PACKAGES_SHOWN = 8
_CELL = 60
_ON_A_LINE = (
    "dtype",
    "kv_cache_dtype",
    "block_size",
    "prefix_caching",
    "mamba_cache_mode",
    "async_scheduling",
    "chunked_prefill",
    "max_batched_tokens",
    "attention_backend",
    "tensor_parallel",
    "gpu",
    "gpu_driver",
    "threads",
)


def card_line(card: EnvironmentCard | None) -> str:
    """Return the settings an engine was really running with, those that answers and times depend on most."""
    entries = card.entries if card else {}
    told = [f"{name.replace('_', ' ')} {one_line(entries[name].value, 40)}" for name in _ON_A_LINE if name in entries]
    return ", ".join(told)


def difference_lines(difference: CardDifference | None) -> list[str]:
    """Return what the arms differ in as a terminal's lines; empty where it is not known."""
    if difference is None or difference.same_arm:  # that is a warning of its own
        return []
    rows = [_cells(row) for row in _rows(difference)]
    lines = [_heading(difference)]
    lines += terminal_table(CARD_HEADER, rows) if rows else []
    return lines + [f"  {line}" for line in _rest(difference)]


def difference_markdown(difference: CardDifference | None) -> list[str]:
    """Return the same as markdown."""
    if difference is None or difference.same_arm:
        return []
    rows = [[escape_markdown(cell) for cell in _cells(row)] for row in _rows(difference)]
    lines = [_heading(difference)]
    lines += ["", *markdown_table(CARD_HEADER, rows)] if rows else []
    rest = [escape_markdown(line) for line in _rest(difference)]
    return lines + (["", *rest] if rest else [])


def _heading(difference: CardDifference) -> str:
    return f"What was running differs in {len(difference.rows)} of {difference.compared} properties told by both:"


def _rows(difference: CardDifference) -> list[CardRow]:
    return difference.rows[:_ROWS_SHOWN]


def _cells(row: CardRow) -> list[str]:
    values = (UNKNOWN if value is None else one_line(value, _CELL) for value in (row.baseline, row.candidate))
    return [one_line(row.name.replace("_", " "), 40), *values]


def _rest(difference: CardDifference) -> Iterator[str]:
    """Yield what the table leaves out."""
    more = len(difference.rows) - _ROWS_SHOWN
    if more > 0:
        yield f"and {more} more properties"
    if difference.one_sided:
        names = ", ".join(one_line(row.name.replace("_", " "), 40) for row in difference.one_sided[:_ROWS_SHOWN])
        yield f"told by one arm only: {names}"
    if difference.packages:
        shown = [
            f"{one_line(row.name, 40)} {one_line(row.baseline or 'none', 30)} → {one_line(row.candidate or 'none', 30)}"
            for row in difference.packages[:_PACKAGES_SHOWN]
        ]
        left = len(difference.packages) - len(shown)
        yield f"packages: {', '.join(shown)}{f' and {left} more' if left > 0 else ''}"

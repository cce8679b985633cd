"""What a grid found, for the terminal: a table of its cells, the questions, and the one sentence."""

from soak.facts import CLASSES, GridFound
from soak.report.escape import one_line
from soak.report.figures import count
from soak.report.table import terminal_table

_TURNS_SHOWN = 5


def terminal_grid(found: GridFound, width: int = 100, colour: bool = False) -> str:  # noqa: ARG001 - as all renderers
    """Return what a grid came to."""
    turns = [one_line(turn, 80) for turn in found.turns[:_TURNS_SHOWN]]
    more = f" and {len(found.turns) - _TURNS_SHOWN} more" if len(found.turns) > _TURNS_SHOWN else ""
    lines = [f"grid {one_line(found.grid, 60)}, {found.repeats} repeats in each cell of: {', '.join(turns)}{more}", ""]
    lines += [*_cells(found), "", *_questions(found)]
    lines += [f"not tried: {one_line(text, 300)}" for text in found.untried]
    lines += [f"note: {one_line(text, 300)}" for text in found.notes]
    return "\n".join([*lines, "", one_line(found.text, 1000)])


def _cells(found: GridFound) -> list[str]:
    factors = list(found.cells[0].levels)
    names = [name for name in CLASSES if any(name in cell.classes for cell in found.cells)]
    silent = any(cell.unanswered for cell in found.cells)
    rows = [
        [
            "; ".join(f"{one_line(name, 40)} {one_line(cell.levels[name], 40)}" for name in factors),
            *(count(cell.classes.get(name, 0)) for name in names),
            *([count(cell.unanswered)] if silent else []),
            f"{count(cell.failed)} of {count(cell.counted)}",
            f"{cell.low:.0%} to {cell.high:.0%}" if cell.counted else "-",
            count(cell.distinct),
        ]
        for cell in found.cells
    ]
    header = ["cell", *names, *(["not answered"] if silent else []), _failed(found), "95 %", "distinct"]
    return [*terminal_table(header, rows), *_counted(found)]


def _failed(found: GridFound) -> str:
    return "failed" if found.fails == "any_failure" else f"{found.fails} (counted)"


def _counted(found: GridFound) -> list[str]:
    left_out = sum(cell.asked - cell.counted - cell.unanswered for cell in found.cells)
    if not left_out:
        return []
    text = f"{count(left_out)} answers are no evidence of their own: nothing is drawn in their cells"
    return [f"  {text}, and the same answer came again"]


def _questions(found: GridFound) -> list[str]:
    rows = [
        [
            one_line(question.name, 60),
            ", ".join(f"{side.failed} of {side.counted} {one_line(side.text, 60)}" for side in question.sides),
            f"{question.p_adjusted:.2g}",
        ]
        for question in found.questions
    ]
    return [*terminal_table(["fails by", "where failures gather", "by luck"], rows), ""] if rows else []

"""Tables as text: aligned for a terminal, as Markdown, as CSV."""

import datetime

MISSING = ""
RIGHT = ("int", "float")


def format_cell(cell, decimals=2):
    """Return a cell as it is printed: floats with a fixed number of decimals, dates in ISO form, missing cells empty."""
    if cell is None:
        return MISSING
    if isinstance(cell, float):
        return f"{cell:.{decimals}f}"
    if isinstance(cell, datetime.date):
        return cell.isoformat()
    return str(cell)


def visible(text):
    """Return the text on one line: line breaks and tabs are shown as escapes."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def width(text):
    """Return how many columns of a terminal the text takes."""
    return len(text)


def pad(text, columns, right=False):
    """Return the text filled with spaces to a number of terminal columns."""
    fill = " " * (columns - width(text))
    return fill + text if right else text + fill


def shorten(text, columns):
    """Return the text cut to a number of terminal columns, with an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    return text[: max(0, columns - 1)] + "…"


def as_text(table, decimals=2, max_width=40):
    """Return the table with aligned columns, a rule under the header, and no trailing spaces."""
    cells = [[shorten(visible(format_cell(cell, decimals)), max_width) for cell in row] for row in table.rows]
    widths = [
        max([width(column.name), *(width(row[number]) for row in cells)]) for number, column in enumerate(table.columns)
    ]
    sides = [column.kind in RIGHT for column in table.columns]
    lines = [_line(table.names, widths, sides), "  ".join("-" * columns for columns in widths)]
    lines += [_line(row, widths, sides) for row in cells]
    return "\n".join(lines) + "\n"


def _line(cells, widths, sides):
    return "  ".join(pad(cell, columns, right) for cell, columns, right in zip(cells, widths, sides)).rstrip()


def as_markdown(table, decimals=2):
    """Return the table in the Markdown dialect of the common forges."""
    rules = ["---:" if column.kind in RIGHT else "---" for column in table.columns]
    rows = [[_escape(visible(format_cell(cell, decimals))) for cell in row] for row in table.rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [[_escape(name) for name in table.names], rules, *rows])


def _escape(text):
    return text.replace("|", "\\|")


def as_csv(table, delimiter=","):
    """Return the table as RFC 4180 text; reading it again gives an equal table."""
    rows = [table.names, *([_plain(cell) for cell in row] for row in table.rows)]
    return "".join(delimiter.join(quote(cell, delimiter) for cell in row) + "\n" for row in rows)


def _plain(cell):
    return "" if cell is None else cell.isoformat() if isinstance(cell, datetime.date) else str(cell)


def quote(text, delimiter=","):
    """Return a field in quotes if it needs them."""
    if any(character in text for character in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text

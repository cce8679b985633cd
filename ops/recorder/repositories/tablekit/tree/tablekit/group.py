"""Grouping and aggregates."""

import statistics

from tablekit.errors import TablekitError
from tablekit.table import Column, Table

NUMERIC = ("int", "float")


def _sum(cells):
    return sum(cell for cell in cells if cell is not None)


def _mean(cells):
    return _sum(cells) / len(cells)


def _median(cells):
    return statistics.median(_present(cells))


def _minimum(cells):
    return min(_present(cells))


def _maximum(cells):
    return max(_present(cells))


def _distinct(cells):
    return len(set(_present(cells)))


def _present(cells):
    return [cell for cell in cells if cell is not None]


AGGREGATES = {
    "sum": _sum,
    "mean": _mean,
    "median": _median,
    "min": _minimum,
    "max": _maximum,
    "distinct": _distinct,
}


def parse_aggregates(text):
    """Return (function, column) pairs of a text such as "count,sum:total"; the column of `count` is None."""
    pairs = []
    for part in text.split(","):
        function, _, column = part.strip().partition(":")
        if function == "count" and not column:
            pairs.append((function, None))
        elif function in AGGREGATES and column:
            pairs.append((function, column))
        else:
            raise TablekitError(f"not an aggregate: {part.strip()!r}; use count or one of {', '.join(AGGREGATES)} with a column")
    return pairs


def group(table, keys, aggregates):
    """
    Return one row per distinct combination of the `keys` columns, in the order in which they first occur.

    Columns of the result are the keys and then one for each aggregate, called "count" or "function_column".
    """
    numbers = [table.index(key) for key in keys]
    groups = {}
    for row in table.rows:
        groups.setdefault(tuple(row[number] for number in numbers), []).append(row)
    columns = [table.columns[number] for number in numbers]
    columns += [_result_column(table, function, column) for function, column in aggregates]
    rows = [
        list(key) + [_aggregate(table, rows, function, column) for function, column in aggregates]
        for key, rows in groups.items()
    ]
    return Table(columns, rows)


def _result_column(table, function, column):
    if function == "count":
        return Column("count", "int")
    kind = table.columns[table.index(column)].kind
    if function in ("sum", "mean", "median") and kind not in NUMERIC:
        raise TablekitError(f"{function} needs numbers, and {column!r} is {kind}")
    result = {"mean": "float", "median": "float", "distinct": "int"}.get(function, kind)
    return Column(f"{function}_{column}", result)


def _aggregate(table, rows, function, column):
    if function == "count":
        return len(rows)
    number = table.index(column)
    cells = [row[number] for row in rows]
    if not _present(cells):
        return None
    return AGGREGATES[function](cells)

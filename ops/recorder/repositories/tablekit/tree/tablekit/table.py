"""The Table value and the operations on it. Operations return new tables and never change one."""

import functools
from dataclasses import dataclass

from tablekit import expr, infer, reader
from tablekit.errors import TablekitError


@dataclass(frozen=True)
class Column:
    """A name and the type of its cells: int, float, date or text."""

    name: str
    kind: str


class Table:
    """Columns and rows of typed cells; a missing cell is None."""

    def __init__(self, columns, rows):
        self.columns = tuple(columns)
        self.rows = [tuple(row) for row in rows]
        self._index = {column.name: number for number, column in enumerate(self.columns)}

    def __len__(self):
        return len(self.rows)

    def __eq__(self, other):
        return isinstance(other, Table) and (self.columns, self.rows) == (other.columns, other.rows)

    def __repr__(self):
        return f"Table({', '.join(f'{column.name}: {column.kind}' for column in self.columns)}; {len(self)} rows)"

    @classmethod
    def from_text(cls, text, delimiter=None):
        """Read a delimited text; see `reader.read_rows` for what is refused."""
        header, rows = reader.read_rows(text, delimiter)
        kinds = [infer.column_type([row[number] for row in rows]) for number in range(len(header))]
        columns = [Column(name, kind) for name, kind in zip(header, kinds)]
        return cls(columns, [[infer.convert(cell, kind) for cell, kind in zip(row, kinds)] for row in rows])

    @property
    def names(self):
        return [column.name for column in self.columns]

    def index(self, name):
        """Return the number of the column called `name`."""
        try:
            return self._index[name]
        except KeyError:
            raise TablekitError(f"no column {name!r}; there are {', '.join(self.names)}") from None

    def column(self, name):
        """Return the cells of one column."""
        number = self.index(name)
        return [row[number] for row in self.rows]

    def select(self, names):
        """Return the table with these columns only, in this order."""
        numbers = [self.index(name) for name in names]
        return Table([self.columns[number] for number in numbers], [[row[number] for number in numbers] for row in self.rows])

    def where(self, text):
        """Return the rows for which the expression holds."""
        condition = expr.parse(text)
        for name in expr.columns_of(condition):
            self.index(name)
        kinds = {column.name: column.kind for column in self.columns}
        keep = [row for row in self.rows if expr.evaluate(condition, dict(zip(self.names, row)), kinds)]
        return Table(self.columns, keep)

    def sort(self, keys):
        """Return the rows sorted by `keys`, names of columns, each with a minus sign before it for descending."""
        rows = list(self.rows)
        # Sorting is stable, so sorting by the last key first leaves the first key in charge.
        for key in reversed(keys):
            descending = key.startswith("-")
            number = self.index(key.removeprefix("-"))
            rows.sort(key=functools.partial(_sort_key, number), reverse=descending)
        return Table(self.columns, rows)

    def limit(self, count, skip=0):
        """Return `count` rows after the first `skip`."""
        return Table(self.columns, self.rows[skip : skip + count])


def _sort_key(number, row):
    """Return a key that puts missing cells last and never compares them with anything else."""
    cell = row[number]
    return (cell is None, 0 if cell is None else cell)

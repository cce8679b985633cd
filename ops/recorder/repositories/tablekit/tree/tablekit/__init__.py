"""Look at delimited files: read, type, filter, sort, group, print."""

from tablekit.errors import ExpressionError, ReadError, TablekitError
from tablekit.table import Column, Table

__version__ = "0.6.0"

__all__ = ["Column", "ExpressionError", "ReadError", "Table", "TablekitError"]

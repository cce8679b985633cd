import datetime

import pytest

from tablekit.infer import column_type, convert


@pytest.mark.parametrize(
    "cells, kind",
    [
        (["1", "2"], "int"),
        (["1", "", "-2"], "int"),
        (["+1", " 2 "], "int"),
        (["1", "2.5"], "float"),
        (["1e3", ".5", "2."], "float"),
        (["007", "1"], "text"),
        (["0", "0.5"], "float"),
        (["2024-02-29", ""], "date"),
        (["2023-02-29"], "text"),
        (["2024-02-29", "1"], "text"),
        (["", " "], "text"),
        ([], "text"),
        (["x"], "text"),
        (["1_000"], "text"),
        (["nan"], "text"),
    ],
)
def test_column_type(cells, kind):
    assert column_type(cells) == kind


@pytest.mark.parametrize(
    "cell, kind, value",
    [
        ("1", "int", 1),
        (" 2 ", "int", 2),
        ("2", "float", 2.0),
        ("", "int", None),
        ("  ", "text", None),
        (" x ", "text", " x "),
        ("2024-02-29", "date", datetime.date(2024, 2, 29)),
    ],
)
def test_convert(cell, kind, value):
    assert convert(cell, kind) == value

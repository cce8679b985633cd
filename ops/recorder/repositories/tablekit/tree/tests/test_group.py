import pytest

from tablekit import Table, TablekitError
from tablekit.group import group, parse_aggregates

SALES = Table.from_text(
    """\
region,item,total
north,tea,10
south,tea,20
north,coffee,30
south,tea,40
east,tea,
"""
)


def test_count_and_order():
    result = group(SALES, ["region"], [("count", None)])
    assert result.rows == [("north", 2), ("south", 2), ("east", 1)]


@pytest.mark.parametrize(
    "function, values",
    [
        ("sum", [40, 60, None]),
        ("mean", [20, 30, None]),
        ("median", [20, 30, None]),
        ("min", [10, 20, None]),
        ("max", [30, 40, None]),
        ("distinct", [2, 2, None]),
    ],
)
def test_aggregates(function, values):
    result = group(SALES, ["region"], [(function, "total")])
    assert result.column(f"{function}_total") == values


def test_two_keys():
    result = group(SALES, ["region", "item"], [("sum", "total")])
    assert result.rows[0] == ("north", "tea", 10)
    assert len(result) == 4


def test_text_aggregates():
    assert group(SALES, ["region"], [("max", "item")]).column("max_item") == ["tea", "tea", "tea"]
    with pytest.raises(TablekitError, match="sum needs numbers, and 'item' is text"):
        group(SALES, ["region"], [("sum", "item")])


@pytest.mark.parametrize("text", ["", "sum", "count:x", "average:total", "sum:total,"])
def test_wrong_aggregates(text):
    with pytest.raises(TablekitError, match="not an aggregate"):
        parse_aggregates(text)

import pytest

from tablekit import Column, Table, TablekitError

TEXT = """\
id,name,score,born
1,Ada,9.5,1815-12-10
2,Brook,,1931-04-19
3,Chen,7.25,
4,Dara,9.5,1960-01-02
"""


@pytest.fixture
def table():
    return Table.from_text(TEXT)


def test_from_text(table):
    assert table.columns == (Column("id", "int"), Column("name", "text"), Column("score", "float"), Column("born", "date"))
    assert len(table) == 4
    assert table.column("score") == [9.5, None, 7.25, 9.5]


def test_select(table):
    assert table.select(["name", "id"]).rows[0] == ("Ada", 1)


def test_unknown_column(table):
    with pytest.raises(TablekitError, match="no column 'age'; there are id, name, score, born"):
        table.select(["age"])
    with pytest.raises(TablekitError, match="no column 'age'"):
        table.where("age > 3")


@pytest.mark.parametrize(
    "expression, ids",
    [("score > 8", [1, 4]), ("score is missing", [2]), ("born < 1900-01-01", [1]), ("name ~ A", [1, 4]), ("not score > 8", [2, 3])],
)
def test_where(table, expression, ids):
    assert table.where(expression).column("id") == ids


@pytest.mark.parametrize(
    "keys, ids",
    [
        (["name"], [1, 2, 3, 4]),
        (["-id"], [4, 3, 2, 1]),
        (["score"], [3, 1, 4, 2]),
        (["born"], [1, 2, 4, 3]),
        (["-name"], [4, 3, 2, 1]),
        (["score", "-name"], [3, 4, 1, 2]),
    ],
)
def test_sort(table, keys, ids):
    assert table.sort(keys).column("id") == ids


def test_limit(table):
    assert table.limit(2).column("id") == [1, 2]
    assert table.limit(2, skip=3).column("id") == [4]


def test_operations_leave_the_table_alone(table):
    before = list(table.rows)
    table.sort(["-id"])
    table.where("id = 1")
    assert table.rows == before

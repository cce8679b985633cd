from pathlib import Path

import pytest

from tablekit.cli import main

DATA = Path(__file__).parent.parent / "data"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_types(capsys):
    code, out, _ = run(capsys, DATA / "orders.csv", "--types")
    assert code == 0
    assert out.splitlines() == [
        "order\tint", "placed\tdate", "region\ttext", "customer\ttext", "item\ttext", "quantity\tint", "total\tfloat", "status\ttext", "note\ttext",
    ]


def test_where_sort_limit(capsys):
    code, out, _ = run(capsys, DATA / "orders.csv", "--where", "region = north", "--sort", "placed", "--limit", 3, "--columns", "order,placed")
    assert code == 0
    assert len(out.splitlines()) == 5


@pytest.mark.parametrize("form, start", [("markdown", "| region |"), ("csv", "region,"), ("text", "region")])
def test_formats(capsys, form, start):
    code, out, _ = run(capsys, DATA / "orders.csv", "--group", "region", "--format", form)
    assert code == 0
    assert out.startswith(start)


def test_errors(capsys):
    assert run(capsys, "nowhere.csv")[::2] == (1, "tablekit: nowhere.csv: No such file or directory\n")
    code, _, err = run(capsys, DATA / "orders.csv", "--where", "region =")
    assert code == 1
    assert err.splitlines()[0] == "tablekit: expected a value, found the end"


def test_stations(capsys):
    code, out, _ = run(capsys, DATA / "stations.tsv", "--sort=-height", "--limit", 1, "--columns", "name,height", "--where", "height is not missing")
    assert code == 0
    assert out.splitlines()[-1].split()[-1] == "2962"

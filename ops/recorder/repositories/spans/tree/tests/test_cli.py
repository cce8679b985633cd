from pathlib import Path

from spans.cli import main

DATA = Path(__file__).parent.parent / "data"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_dates(capsys):
    code, lines, _ = run(capsys, "dates", "every 2 weeks on mon, thu", "--start", "2024-01-01", "--count", 3)
    assert (code, lines) == (0, ["2024-01-01 Mon", "2024-01-04 Thu", "2024-01-15 Mon"])


def test_workdays(capsys):
    assert run(capsys, "workdays", "2024-03-25", "2024-04-08", "--calendar", DATA / "holidays.json")[1] == ["8"]


def test_free(capsys):
    code, lines, _ = run(capsys, "free", DATA / "bookings.csv", "--room", "library", "--day", "2024-05-18")
    assert (code, lines) == (0, ["08:00-18:00"])


def test_errors(capsys):
    code, _, err = run(capsys, "free", DATA / "bookings.csv", "--room", "cellar", "--day", "2024-05-14")
    assert code == 1
    assert err.startswith("spans: no bookings of 'cellar'")

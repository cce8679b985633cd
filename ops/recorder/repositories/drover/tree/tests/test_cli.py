from pathlib import Path

from drover.cli import main

ROOT = Path(__file__).parent.parent


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_next(capsys):
    code, lines, _ = run(capsys, "next", "30 6 * * 1-5", "--start", "2024-03-01T07:00", "--count", 2)
    assert (code, lines) == (0, ["Mon 2024-03-04 06:30", "Tue 2024-03-05 06:30"])


def test_simulate(capsys):
    code, lines, _ = run(capsys, "simulate", ROOT / "plans" / "small.json")
    assert code == 0
    assert lines[0].split() == ["0.0", "started", "fetch", "(attempt", "1)"]
    assert lines[-1].startswith("3 succeeded")


def test_report(capsys):
    code, lines, _ = run(capsys, "report", ROOT / "data" / "journal.jsonl")
    assert code == 0
    assert len(lines) > 20


def test_errors(capsys):
    code, _, err = run(capsys, "next", "* *", "--start", "2024-03-01")
    assert (code, err) == (1, "drover: a cron time has five fields: '* *'\n")

from pathlib import Path

from soak.launch.log import LINE_CHARS, last_lines


def test_a_hostile_log_is_shown_bounded_and_printable(tmp_path: Path) -> None:
    """Escape sequences, control bytes, invalid UTF-8, bare carriage returns and endless lines come out harmless."""
    path = tmp_path / "log"
    path.write_bytes(b"one\n\x1b[2J\x1b]0;title\x07two\xff\x00\rthree\n\n" + b"x" * 1000 + b"\n")
    lines = last_lines(path, 10)
    assert lines[0] == "one"
    assert lines[2] == "three"
    assert lines[3] == "x" * LINE_CHARS
    assert all(line.isprintable() or "\ufffd" in line for line in lines)


def test_only_the_end_of_a_huge_log_is_read(tmp_path: Path) -> None:
    """Of a large file only the last lines are returned, and none of what stood before `start`."""
    path = tmp_path / "log"
    path.write_bytes(b"a line of the past\n" * 100_000)
    before = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"new\n")
    assert last_lines(path, 2) == ("a line of the past", "new")
    assert last_lines(path, 2, start=before) == ("new",)
    assert last_lines(path, 0) == ()


def test_no_log_is_no_lines(tmp_path: Path) -> None:
    """A log file that does not exist has no last lines."""
    assert last_lines(tmp_path / "log", 5) == ()

"""Streams that are closed, missing or narrow change neither a run nor an exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = [sys.executable, "-m", "soak.cli"]


def run(command: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `command` in a shell; `$SOAK` is the program."""
    variables = {"PATH": "/usr/bin:/bin", "SOAK": " ".join(SOAK), "HOME": str(tmp_path), **environment}
    return subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_reader_that_leaves_does_not_change_the_exit_code(tmp_path: Path) -> None:
    """Whoever reads stdout and stderr may leave at once: the command still ends with its own code."""
    result = run("(sleep 0.3; $SOAK check nowhere; echo code $? >&3) 3>code 2>&1 | true; cat code", tmp_path)
    assert result.stdout.strip() == "code 7"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_missing_stream_is_no_traceback(tmp_path: Path, closed: str) -> None:
    """With stdout or stderr closed from the beginning a command works and ends with its code."""
    result = run(f"$SOAK corpus list {closed}; echo code $?", tmp_path)
    assert "code 0" in result.stdout
    assert "Traceback" not in result.stderr


def test_a_narrow_encoding_spells_what_it_cannot_show(tmp_path: Path) -> None:
    """Where stdout is ASCII, other characters are escaped, and nothing fails."""
    script = (
        "import soak.cli.streams as s, sys; s.make_patient(); print('a \\u2014 b'); print('c \\u2014', file=sys.stderr)"
    )
    result = run(f'{sys.executable} -c "{script}"', tmp_path, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stdout.strip()) == (0, "a \\u2014 b")

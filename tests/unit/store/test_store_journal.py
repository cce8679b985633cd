"""A journal: whole lines survive, torn ones do not, damage is told."""

from pathlib import Path

import pytest

from soak.errors import RunFolderError
from soak.facts import Attempt
from soak.store import Journal, read_journal


def attempt(number: int) -> Attempt:
    return Attempt(started_at=float(number), took_ms=1.0, status=200)


def test_facts_come_back_in_order(tmp_path: Path) -> None:
    """What one process added the next one finds, and goes on after it."""
    path = tmp_path / "new" / "attempts.jsonl"
    for first in (0, 3):
        with Journal(path, Attempt) as journal:
            assert journal.kept == [attempt(i) for i in range(first)]
            for number in range(first, first + 3):
                journal.add(attempt(number))
    assert read_journal(path, Attempt) == [attempt(i) for i in range(6)]


def test_every_torn_end_is_dropped(tmp_path: Path) -> None:
    """Cut anywhere, a journal holds exactly the whole lines before the cut, and can be gone on with."""
    path = tmp_path / "attempts.jsonl"
    with Journal(path, Attempt) as journal:
        journal.add(attempt(0))
        journal.add(attempt(1))
    data = path.read_bytes()
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        with Journal(path, Attempt) as journal:
            assert len(journal.kept) == whole
            journal.add(attempt(9))
        assert read_journal(path, Attempt) == [*map(attempt, range(whole)), attempt(9)]


def test_damage_is_told_with_its_line(tmp_path: Path) -> None:
    """A whole line that is no such fact is an error naming file and line, and the file is left as it is."""
    path = tmp_path / "attempts.jsonl"
    path.write_bytes(b'{"started_at":0,"took_ms":1}\nnot json\n')
    with pytest.raises(RunFolderError, match="is damaged") as caught, Journal(path, Attempt):
        pass
    assert "line 2" in caught.value.why
    assert path.read_bytes().endswith(b"not json\n")


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A second writer is refused while the first holds the journal, and let in afterwards."""
    path = tmp_path / "attempts.jsonl"
    with Journal(path, Attempt), pytest.raises(RunFolderError, match="another process"), Journal(path, Attempt):
        pass
    with Journal(path, Attempt) as journal:
        journal.add(attempt(0))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A journal below a file is an error that names it."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError, match="cannot be used"), Journal(tmp_path / "file" / "a.jsonl", Attempt):
        pass

"""A history cut at any byte gives exactly the whole records before the cut, or says that it is damaged."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.errors import RunFolderError
from soak.facts import Build, CorpusCard, Manifest, Message, Record, Started, TurnKey, make_episode
from soak.facts.manifest import ArmCard
from soak.store import RunFolder, close_open_starts

TURNS = 24
EPISODE = make_episode("e", [Message(role="user", content=f"{i} " * 400) for i in range(TURNS + 1)])
MANIFEST = Manifest(
    soak_version="0",
    created_at=0.0,
    scenario={},
    given={},
    seed=0,
    corpus=CorpusCard(name="c", path="c", digest="d", episodes=1, turns=TURNS),
    arms=(ArmCard(name="a", build=Build(model="m", target="t")),),
    plan_digest="p",
)


def started(turn: int, start: int = 0) -> Started:
    key = TurnKey(episode="e", turn=turn, pass_=0, arm="a")
    return Started(key=key, start=start, at=0.0, seed=turn, prefix=EPISODE.nodes[turn].digest, request="r" * turn * 200)


def skipped(turn: int) -> Record:
    return Record(key=started(turn).key, outcome="skipped", at=0.0, reason="x" * (turn * 700 % 9000))


@dataclass(frozen=True)
class Written:
    """A run left behind in mid-write: turns done in the main file, and the log's size after each later record."""

    path: Path
    in_main: int
    log_sizes: list[int]


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    """A run of which the first turns are in the main file and each later record is one group of the log."""
    with tempfile.TemporaryDirectory() as place:
        run, in_main = RunFolder.create(Path(place) / "run", MANIFEST), TURNS // 3
        with run.writer() as writer:
            writer.messages(EPISODE.nodes)
            for turn in range(in_main):
                writer.start(started(turn))
                writer.finish(skipped(turn), b"proof" * 100)
        log, sizes = run.path / "history.sqlite-wal", list[int]()
        with run.writer() as writer:
            for turn in range(in_main, TURNS):
                writer.start(started(turn))
                writer.flush()
                sizes.append(log.stat().st_size)
                writer.finish(skipped(turn), b"proof" * 100)
                writer.flush()
                sizes.append(log.stat().st_size)
            shutil.copytree(run.path, Path(place) / "left")
        yield Written(Path(place) / "left", in_main, sizes)


def copy_cut(written: Written, place: str, name: str, at: int, with_shm: bool) -> Path:
    path = Path(place) / "copy"
    shutil.copytree(written.path, path, ignore=None if with_shm else shutil.ignore_patterns("*-shm"))
    os.truncate(path / name, at)
    return path


def read_all(path: Path) -> tuple[list[Started], list[Record]]:
    """Read everything there is; any damage must show as RunFolderError."""
    with RunFolder.open(path).history() as history:
        starts, records = list(history.starts()), list(history.records())
        for start in starts:
            assert history.prefix(start.prefix) == tuple(node.message for node in EPISODE.nodes[: start.key.turn + 1])
        for record in records:
            assert history.raw(record.key) == b"proof" * 100
        return starts, records


@settings(max_examples=60, deadline=None)
@given(data=st.data(), with_shm=st.booleans())
def test_a_log_cut_anywhere_gives_the_whole_records_before_the_cut(
    written: Written, data: st.DataObject, with_shm: bool
) -> None:
    """Recovery yields exactly the groups that are whole before the cut; then the run goes on to one end per turn."""
    cut = data.draw(st.integers(0, written.log_sizes[-1]) | st.sampled_from(written.log_sizes))
    whole = sum(size <= cut for size in written.log_sizes)
    with tempfile.TemporaryDirectory() as place:
        path = copy_cut(written, place, "history.sqlite-wal", cut, with_shm)
        starts, records = read_all(path)
        assert starts == [started(turn) for turn in range(written.in_main + (whole + 1) // 2)]
        assert records == [skipped(turn) for turn in range(written.in_main + whole // 2)]
        go_on(path)


def go_on(path: Path) -> None:
    """Resume the run to its end: every turn of the plan is done, and no start is left without an end."""
    run = RunFolder.open(path)
    with run.history() as history:
        done, counts = history.done(), history.start_counts()
    with run.writer() as writer:
        closed = close_open_starts(writer, 1.0, "killed")
        for turn in range(TURNS):
            key = started(turn).key
            if key not in done:
                writer.start(started(turn, counts.get(key, 0)))
                writer.finish(skipped(turn))
    with run.history() as history:
        assert history.done() == {started(turn).key for turn in range(TURNS)}
        assert history.open_starts() == []
        assert len(list(history.records())) == len(list(history.starts())) == TURNS + len(closed)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), log_too=st.booleans())
def test_a_main_file_cut_anywhere_is_whole_or_refused(written: Written, data: st.DataObject, log_too: bool) -> None:
    """A cut of the database itself is told as damage; never is less, or something else, read in silence."""
    size = (written.path / "history.sqlite").stat().st_size
    pages = st.integers(0, size // 4096).map(lambda page: page * 4096)
    cut = data.draw(st.integers(0, size) | pages)
    with tempfile.TemporaryDirectory() as place:
        path = copy_cut(written, place, "history.sqlite", cut, with_shm=False)
        if not log_too:
            (path / "history.sqlite-wal").unlink()
        try:
            starts, records = read_all(path)
        except RunFolderError as error:
            assert error.exit_code == 7
            return
        assert cut == size or log_too
        last = TURNS if log_too else written.in_main
        assert starts == [started(turn) for turn in range(last)]
        assert records == [skipped(turn) for turn in range(last)]

"""The folder of a bisection: whole or as it was, its own, and no other's."""

from pathlib import Path

import msgspec
import pytest

from soak.errors import RunFolderError
from soak.facts import BisectOrder, BisectStep, BuildFile, NamedBuild
from soak.store import BisectFolder

STEP = BisectStep(build="b1", index=1, outcome="bad", text="t", run="steps/01-b1")


def order_of(*names: str, **file: object) -> BisectOrder:
    content = BuildFile(**({"engine": "url", "about": "x", "url": "http://h:1"} | file))  # type: ignore[arg-type]
    builds = tuple(NamedBuild(name=name, file=content) for name in names)
    return BisectOrder(builds=builds, scenario="s", digest="d", alpha=0.1, beta=0.1, turns_per_step=9)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Order and steps come back as they were, and the next step's folder has its number and build."""
    folder = BisectFolder.create(tmp_path / "b", order_of("b0", "b1"))
    assert folder.run_of_next_step("a/b: c") == tmp_path / "b" / "steps" / "01-a_b__c"
    folder.update(msgspec.structs.replace(folder.state, steps=(STEP,)))
    again = BisectFolder.open(tmp_path / "b")
    assert again.state == folder.state
    assert again.run_of_next_step("b0").name == "02-b0"


def test_one_soak_at_a_time(tmp_path: Path) -> None:
    """A second process is refused while the lock is held."""
    BisectFolder.create(tmp_path / "b", order_of("b0", "b1"))
    with BisectFolder.open(tmp_path / "b"), pytest.raises(RunFolderError, match="another process"):
        BisectFolder.open(tmp_path / "b").__enter__()


def test_a_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    """One that holds something is not touched; what a kill left before the beginning is no obstacle."""
    (tmp_path / "bisecting.json.new").write_text("{")
    BisectFolder.create(tmp_path, order_of("b0", "b1"))
    with pytest.raises(RunFolderError, match="cannot begin"):
        BisectFolder.create(tmp_path, order_of("b0", "b1"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema":"soak.bisecting/9","order":{}}', "\udcff", "[" * 100_000])
def test_what_is_damaged_is_told(tmp_path: Path, text: str) -> None:
    """A state that cannot be read raises the run folder's error and nothing else."""
    (tmp_path / "bisecting.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RunFolderError):
        BisectFolder.open(tmp_path)


def test_steps_of_other_builds_are_told(tmp_path: Path) -> None:
    """A step whose build is not the one of its number is damage, and so is a state from a newer soak."""
    folder = BisectFolder.create(tmp_path, order_of("b0", "b1"))
    good = folder.state
    for wrong in (
        msgspec.structs.replace(good, steps=(msgspec.structs.replace(STEP, index=7),)),
        msgspec.structs.replace(good, steps=(msgspec.structs.replace(STEP, index=0),)),
        msgspec.structs.replace(good, schema="soak.bisecting/2"),
    ):
        folder.update(wrong)
        with pytest.raises(RunFolderError):
            BisectFolder.open(tmp_path)


def test_no_key_is_written(tmp_path: Path) -> None:
    """An order that holds what looks like a key is refused before anything is stored."""
    with pytest.raises(RunFolderError, match="refused to write"):
        BisectFolder.create(tmp_path / "b", order_of("b0", "b1", url="http://user:password1@h:1"))
    assert not list((tmp_path / "b").glob("*.json"))

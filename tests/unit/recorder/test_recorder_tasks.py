"""The tasks file is what the recorder makes of the episodes."""

import pytest
from rigs.walls import skip_without_walls

from ops.recorder.__main__ import TASKS, main
from ops.recorder.record import corpora, scripts
from ops.recorder.script import read_script
from ops.recorder.tasks import LEFT_OUT, as_file
from soak.importers import load_tasks


def test_one_task_is_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Recording an episode again and running its tests before and after the repair gives its task's line."""
    skip_without_walls()
    assert main(["tasks", "--episode", "pocket_units"]) == 0
    assert "pocket_units: the same byte for byte (2 lines)" in capsys.readouterr().out


def test_every_episode_has_its_task_and_the_file_its_form() -> None:
    """There is a task for each script but those left out, and writing them again gives the file byte for byte."""
    tasks = list(load_tasks(TASKS))
    ids = {read_script(path).id for corpus in corpora() for path in scripts(corpus)}
    assert {task.id for task in tasks} == ids - LEFT_OUT
    assert as_file(tasks) == TASKS.read_bytes()

"""Runs that are broken off: by SIGKILL at random moments, by Ctrl-C, by SIGTERM, by a server that dies."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.cli import (
    Command,
    Fake,
    ends_of,
    planned_keys,
    processes_of_session,
    starts_of,
    wait_until,
)

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

PACED = ("--rates", "early_stop=0.02", "--first-chunk-s", 0.04, "--gap-s", 0.002)
SILENT = ("--rates", "silent_middle=1")
RUN = "run"
RETRIES = ("--set", "retries.wait_max_s=0.05")


def order(server: Fake, passes: int = 4, in_flight: int = 4, *more: object) -> tuple[object, ...]:
    """Return the command line of a run of 11 turns a pass."""
    return ("run", "--scenario", "smoke", "--target", server.url, "--passes", passes, "--in-flight", in_flight,
            "--run", RUN, "--json", *RETRIES, *more)  # fmt: skip


def assert_whole(folder: Path, last: Command) -> None:
    """Every planned turn is finished or skipped exactly once, every start has an end, and the summary says so."""
    ends = ends_of(folder)
    done = ends["finished"] + ends["skipped"]
    assert len(done) == len(set(done)), "a turn was finished twice"
    assert set(done) == planned_keys(folder)
    assert starts_of(folder) == len(ends["finished"]) + len(ends["indeterminate"])
    turns = last.json["arms"]["candidate"]["turns"]
    assert last.json["state"] == "complete"
    assert turns["planned"] == turns["finished"] + turns["skipped"] == len(done)
    assert turns["indeterminate"] == turns["not_reached"] == 0
    assert turns["repeated_starts"] == len(ends["indeterminate"])


def killed_and_resumed(begin: Soak, server: Fake, folder: Path, moments: list[float]) -> Command:
    """
    Begin a run, kill it at each of `moments`, and resume it to its end.

    Moments are seconds: every other one after the command was started, the rest after it had begun to send turns.
    """
    command = begin(*order(server))
    for number, moment in enumerate(moments):
        wait_until((folder / "manifest.json").exists, what="the manifest")
        if number % 2:
            command.said("run begins")
        time.sleep(moment)  # the moment itself: wherever the run happens to be
        command.signal(signal.SIGKILL)
        command.wait()
        command = begin("resume", RUN, "--json")
    return command.wait()


def test_a_run_killed_many_times_is_finished_once(begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """SIGKILL at 14 random moments of one run, resumed each time: the plan is done, and no turn twice."""
    dice = random.Random(14)
    last = killed_and_resumed(begin, fake(*PACED), tmp_path / RUN, [dice.uniform(0.02, 0.4) for _ in range(14)])
    assert_whole(tmp_path / RUN, last)
    assert last.code == 0
    assert ends_of(tmp_path / RUN)["indeterminate"], "no kill hit a turn in flight: the test showed nothing"


@pytest.mark.parametrize("seed", range(6))
def test_a_run_killed_once_is_finished_once(begin: Soak, fake: Fakes, tmp_path: Path, seed: int) -> None:
    """SIGKILL at one random moment of a run, then a resume: the plan is done, and no turn twice."""
    moment = random.Random(seed).uniform(0.0, 1.2)
    last = killed_and_resumed(begin, fake(*PACED), tmp_path / RUN, [moment])
    assert_whole(tmp_path / RUN, last)


def test_a_run_killed_before_it_was_set_up_is_not_a_run(begin: Soak, fake: Fakes, soak: Soak, tmp_path: Path) -> None:
    """A folder without a manifest is refused by resume with exit code 7, and the run can be begun anew."""
    server = fake(*PACED)
    command = begin(*order(server))
    command.signal(signal.SIGKILL)
    command.wait()
    assert not (tmp_path / RUN / "manifest.json").exists()
    resumed = soak("resume", RUN)
    assert resumed.code == 7
    resumed.error_lines()
    assert soak(*order(server, 1)).code == 0


def test_ctrl_c_drains_and_the_run_can_go_on(begin: Soak, fake: Fakes, soak: Soak, tmp_path: Path) -> None:
    """One Ctrl-C lets turns in flight finish, exits 130 and says how to go on; resume does the rest."""
    server = fake("--rates", "none", "--first-chunk-s", 0.3)
    command = begin(*order(server)).said("run begins")
    wait_until(lambda: server.state()["running"] == 4, what="four turns in flight")
    command.signal(signal.SIGINT)
    command.said("draining")
    command.wait()
    turns = command.json["arms"]["candidate"]["turns"]
    assert command.code == 130
    assert command.json["state"] == "interrupted"
    assert turns["finished"] >= 4
    assert turns["indeterminate"] == 0
    assert turns["not_reached"] > 0
    assert server.state()["hung_up"] == 0
    assert f"soak resume {RUN}" in command.err
    assert not processes_of_session(command.pid)
    last = soak("resume", RUN, "--json")
    assert last.code == 0
    assert_whole(tmp_path / RUN, last)


def test_ctrl_c_twice_stops_at_once(begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A second Ctrl-C closes the streams of turns in flight, which become indeterminate; exit 130."""
    server = fake(*SILENT)
    command = begin(*order(server)).said("run begins")
    wait_until(lambda: server.state()["running"] == 4, what="four turns in flight")
    command.signal(signal.SIGINT)
    command.said("draining")
    assert command.code is None
    command.signal(signal.SIGINT)
    command.wait(15)
    turns = command.json["arms"]["candidate"]["turns"]
    assert command.code == 130
    assert (turns["finished"], turns["indeterminate"]) == (0, 4)
    assert turns["planned"] == 4 + turns["not_reached"]
    wait_until(lambda: server.state()["hung_up"] == 4, what="the close of four streams")
    assert len(ends_of(tmp_path / RUN)["indeterminate"]) == 4


def test_sigterm_drains_as_ctrl_c_does(begin: Soak, fake: Fakes) -> None:
    """SIGTERM, as a scheduler sends it, drains the run; exit 130."""
    server = fake("--rates", "none", "--first-chunk-s", 0.2)
    command = begin(*order(server)).said("run begins")
    wait_until(lambda: server.state()["running"] > 0, what="a turn in flight")
    command.signal(signal.SIGTERM)
    command.wait()
    assert (command.code, command.json["state"]) == (130, "interrupted")
    assert command.json["arms"]["candidate"]["turns"]["indeterminate"] == 0


def test_the_drain_limit_ends_what_does_not_end(begin: Soak, fake: Fakes) -> None:
    """After one Ctrl-C, turns that outlive `drain_s` are broken off as indeterminate."""
    server = fake(*SILENT)
    command = begin(*order(server, 4, 2, "--set", "drain_s=0.5")).said("run begins")
    wait_until(lambda: server.state()["running"] == 2, what="two turns in flight")
    command.signal(signal.SIGINT)
    command.wait(15)
    assert command.code == 130
    assert command.json["arms"]["candidate"]["turns"]["indeterminate"] == 2


def test_a_server_that_dies_and_comes_back(begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Turns in flight end as error, the run says that it waits, goes on with the server, and completes."""
    server = fake("--rates", "none", "--first-chunk-s", 0.02, "--gap-s", 0.004)
    command = begin(*order(server)).said("run begins")
    wait_until(lambda: server.state()["chats"] > 8, what="some turns")
    server.kill()
    command.said("server does not answer; waiting up to 600 s")
    server.start()
    command.said("server is back after")
    command.wait()
    turns = command.json["arms"]["candidate"]["turns"]
    assert command.json["state"] == "complete"
    assert 1 <= turns["error"] <= 4
    assert turns["ok"] == 44 - turns["error"]
    assert_whole(tmp_path / RUN, command)


def test_a_server_that_does_not_come_back(begin: Soak, fake: Fakes, soak: Soak, tmp_path: Path) -> None:
    """After `server_return_s` the run ends with exit code 5; resume refuses while it is away, then goes on."""
    server = fake("--rates", "none", "--first-chunk-s", 0.02, "--gap-s", 0.004)
    command = begin(*order(server, 4, 4, "--set", "server_return_s=1")).said("run begins")
    wait_until(lambda: server.state()["chats"] > 8, what="some turns")
    server.kill()
    command.wait()
    assert (command.code, command.json["state"]) == (5, "engine_gone")
    assert "server did not come back within 1 s" in command.err
    assert f"soak resume {RUN}" in command.err
    refused = soak("resume", RUN)
    assert refused.code == 5
    refused.error_lines()
    server.start()
    last = soak("resume", RUN, "--json")
    assert last.json["state"] == "complete"
    assert_whole(tmp_path / RUN, last)


def test_two_soaks_cannot_write_one_run(begin: Soak, fake: Fakes, soak: Soak) -> None:
    """A resume of a run in progress is refused with exit code 7 and harms nothing."""
    server = fake(*PACED)
    command = begin(*order(server)).said("run begins")
    refused = soak("resume", RUN)
    assert refused.code == 7
    assert "lock" in refused.error_lines()[1]
    assert command.wait().code == 0

"""`soak probe` through the command line, against servers with known faults."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from rigs.cli import Command, Fake, wait_until

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

TURN = "sampling.max_tokens=1500"


def a_run(soak: Soak, server: Fake) -> str:
    """Make a run of two turns, and return the key of its first."""
    command = soak("run", "--scenario", "smoke", "--target", server.url, "--turns", "2", "--run", "run", "--set", TURN)
    assert command.code in (0, 1, 3), command.err
    listed = soak("show", "run").out
    return next(word for word in listed.split() if word.endswith(":0:0:candidate"))


def test_repeats_are_counted_kept_and_not_asked_again(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Ten repeats meet the server's own count of faults; asked again, only what is missing is sent."""
    server = fake("--rates", "loop=0.5")
    key = a_run(soak, server)
    before = len(server.truth_file.read_text().splitlines())
    first = soak("probe", "run", key, "--only-repeats", "--repeats", "10", "--into", "probe", "--json")
    assert first.code == 0, first.err
    found = json.loads(first.out)
    (outcome,) = found["outcomes"]
    truth = [json.loads(line) for line in server.truth_file.read_text().splitlines()[before:]]
    asked = [one for one in truth if "fault" in one]
    assert outcome["asked"] == 10 == len(asked)
    assert outcome["classes"].get("garbage_loop", 0) == sum(one["fault"] == "loop" for one in asked)
    assert 0 <= outcome["low"] <= outcome["failed"] / 10 <= outcome["high"] <= 1
    server.kill()
    server.start()
    again = soak("probe", "run", key, "--only-repeats", "--repeats", "10", "--into", "probe", "--json")
    assert json.loads(again.out)["outcomes"] == found["outcomes"]
    more = soak("probe", "run", key, "--only-repeats", "--repeats", "12", "--into", "probe", "--json")
    assert json.loads(more.out)["outcomes"][0]["asked"] == 12
    kept = [json.loads(line) for line in (tmp_path / "probe" / "trials.jsonl").read_text().splitlines()]
    assert [one["repeat"] for one in sorted(kept, key=lambda one: one["repeat"])] == list(range(12))


def test_a_plan_sends_nothing(soak: Soak, fake: Fakes) -> None:
    """`--plan` says how many requests there would be, and the server sees none; a smaller limit is refused first."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    before = server.truth_file.read_bytes()
    planned = soak("probe", "run", key, "--only-repeats", "--repeats", "7", "--plan", "--json")
    assert planned.code == 0
    assert json.loads(planned.out)["requests"] == 7
    refused = soak("probe", "run", key, "--only-repeats", "--repeats", "7", "--max-requests", "5")
    assert refused.code == 2
    assert "no more than 5" in refused.err
    assert server.truth_file.read_bytes() == before


def test_a_killed_probe_goes_on(soak: Soak, begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """SIGKILL in the middle loses at most the answer in flight: the next call asks only what is missing."""
    server = fake("--rates", "none", "--first-chunk-s", "0.2")
    key = a_run(soak, server)
    command = begin("probe", "run", key, "--only-repeats", "--repeats", "8", "--into", "probe")
    trials = tmp_path / "probe" / "trials.jsonl"
    wait_until(lambda: trials.exists() and trials.read_bytes().count(b"\n") >= 3, what="three answers")
    command.signal(signal.SIGKILL)
    command.wait()
    before = trials.read_bytes().count(b"\n")
    assert before < 8
    assert soak("probe", "run", key, "--only-repeats", "--repeats", "8", "--into", "probe").code == 0
    lines = trials.read_text().splitlines()
    assert sorted(json.loads(line)["repeat"] for line in lines) == list(range(8))


def test_wrong_turns_are_told(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """No turn, two turns, an unknown turn and a file that is no turn file: the exit codes and three lines."""
    server = fake("--rates", "none")
    a_run(soak, server)
    (tmp_path / "no.json").write_text('{"name": "x"}')
    for arguments, code in (
        ((), 2),
        (("run", "nothing:0:0"), 2),
        (("--turn-file", "no.json"), 4),
        (("--turn-file", "absent.json"), 4),
        (("absent", "a:0:0"), 7),
    ):
        command = soak("probe", *arguments)
        assert command.code == code, (arguments, command.err)
        assert command.err.startswith("error: ")
        assert len(command.err.splitlines()) == 3


def test_a_turn_that_broke_is_triaged_as_far_as_the_server_allows(soak: Soak, fake: Fakes) -> None:
    """On a server that soak does not start, what needs another start is told as untried, and the rest is asked."""
    server = fake("--rates", "loop=1")
    key = a_run(soak, server)
    command = soak("probe", "run", key, "--repeats", "4", "--into", "probe", "--json")
    assert command.code == 3, command.err
    found = command.json
    assert found["failure"] == "garbage_loop"
    assert found["cause"] == "undecided"
    assert [one["classes"] for one in found["outcomes"]] == [{"garbage_loop": 4}] * len(found["outcomes"])
    assert len(found["outcomes"]) >= 3
    untried = " ".join(found["open"])
    assert "no speculation: not tried" in untried
    assert "served anew: not tried" in untried
    assert "UNDECIDED" in soak("probe", "run", key, "--repeats", "4", "--into", "probe").out


def test_a_turn_that_is_ok_is_not_triaged(soak: Soak, fake: Fakes) -> None:
    """Nothing is sent to find out why a turn broke that did not."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    before = server.truth_file.read_bytes()
    command = soak("probe", "run", key)
    assert command.code == 2
    assert "did not break" in command.error_lines()[0]
    assert server.truth_file.read_bytes() == before


def test_greedy_answers_of_two_servers_are_held_against_each_other(soak: Soak, fake: Fakes) -> None:
    """Equal servers never part; with another seed the fake's answers part widely; without a second server: told."""
    server = fake("--rates", "none")
    alike, other = (fake("--rates", "none", "--speculation", "off", "--seed", seed) for seed in ("0", "8"))
    key = a_run(soak, server)
    arguments = ("probe", "run", key, "--diverge", "--json")
    same = soak(*arguments, "--plain", alike.url)
    assert (same.code, same.json["result"]) == (0, "same"), same.err
    apart = soak(*arguments, "--plain", other.url, "--into", "other")
    assert apart.json["parted"] == 1
    assert apart.json["result"] in ("deviates", "undecided")
    assert soak(*arguments).code == 2


def test_a_plain_server_that_speculates_is_refused(soak: Soak, fake: Fakes) -> None:
    """The server named with --plain must run without speculation, as far as it says; else nothing was compared."""
    server = fake("--rates", "none")
    refused = soak("probe", "run", a_run(soak, server), "--diverge", "--plain", server.url)
    assert refused.code == 2
    assert "no server without speculation" in refused.error_lines()[0]


def test_orders_that_contradict_each_other_are_refused(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Two kinds of probe at once, a turn file beside a run, and a turn given twice are refused, never ignored."""
    key = a_run(soak, fake("--rates", "none"))
    (tmp_path / "turn.json").write_text('{"name":"talk","messages":[{"role":"user","content":"hello"}]}')
    for arguments in (
        ("probe", "run", key, "--shrink", "--only-repeats"),
        ("probe", "run", key, "--only-repeats", "--turn-file", "turn.json"),
        ("probe", "run", "--only-repeats", "--turn-file", "turn.json"),
        ("repro", "run", key, key),
    ):
        refused = soak(*arguments)
        assert refused.code == 2, (arguments, refused.err)
        refused.error_lines()


def test_a_full_disk_is_an_error_and_nothing_kept_is_lost(soak: Soak, begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Where an answer cannot be kept the probe ends in three lines with code 7, and goes on once there is room."""
    key = a_run(soak, fake("--rates", "none"))
    arguments = ("probe", "run", key, "--only-repeats", "--repeats", "12", "--into", "probe")
    full = begin(*arguments, limits={"RLIMIT_FSIZE": 12_000}).wait()
    assert full.code == 7, full.err
    full.error_lines()
    kept = (tmp_path / "probe" / "trials.jsonl").read_bytes()
    assert kept.endswith(b"\n")
    assert soak(*arguments).code == 0
    assert (tmp_path / "probe" / "trials.jsonl").read_bytes().startswith(kept)


def test_siblings_are_asked_again_with_the_salt_they_shared(soak: Soak, fake: Fakes) -> None:
    """The request of a sibling's turn can be made again to the letter, its salt included."""
    server = fake("--rates", "none")
    shapes = ("load.overlap.siblings=2", "load.overlap.depth=0", "salt=conversation")
    run = soak("run", "--scenario", "smoke", "--target", server.url, "--turns", "8", "--run", "run",
               *(part for one in shapes for part in ("--set", one)))  # fmt: skip
    assert run.code in (0, 1, 3), run.err
    listed = soak("show", "run").out.split()
    sibling = next(word for word in listed if word.endswith(":1:candidate"))
    planned = soak("probe", "run", sibling, "--only-repeats", "--plan")
    assert planned.code == 0, planned.err
    asked = soak("probe", "run", sibling, "--only-repeats", "--repeats", "1")
    assert "cannot be made again" not in asked.err

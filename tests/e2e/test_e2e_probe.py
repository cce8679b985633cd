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
    arguments = ("probe", "run", key, "--only-repeats", "--repeats", "10", "--into", "probe", "--json")
    planned = soak(*arguments, "--plan").json
    assert (planned["requests"], planned["kept"]) == (10, 10)
    again = soak(*arguments, "--max-requests", "1")  # nothing is left to send
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


def test_a_limit_that_is_used_up_is_told_before_a_server_is_opened(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """What was sent counts against the limit, is told by `--plan`, and no server is needed to refuse more."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    probe = ("probe", "run", key, "--only-repeats", "--into", "probe", "--max-requests", "4")
    assert soak(*probe, "--repeats", "4").code == 0
    server.kill()
    refused = soak(*probe, "--repeats", "5")
    assert refused.code == 2, refused.err
    assert "no more than 4 may be sent, and 4 were sent before" in refused.err
    planned = soak(*probe, "--repeats", "5", "--plan", "--json").json
    assert (planned["requests"], planned["kept"], planned["sent"]) == (5, 4, 4)
    assert "; 4 were sent before" in soak(*probe, "--repeats", "5", "--plan").out
    for requests in (-4, 0, 10**30):
        (tmp_path / "probe" / "sent.jsonl").write_text(json.dumps({"at": 1.0, "requests": requests}) + "\n")
        for damaged in (soak(*probe, "--repeats", "5", "--plan"), soak(*probe, "--repeats", "5")):
            assert damaged.code == 7, damaged.err
            assert "sent.jsonl is damaged" in damaged.error_lines()[0]


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
    assert all(one["classes"] == {"garbage_loop": one["asked"]} for one in found["outcomes"])
    assert [one["asked"] for one in found["outcomes"]] == [4, 4, 4, 4, 3], "greedy repeats are one draw"
    assert len(found["outcomes"]) >= 3
    untried = " ".join(found["open"])
    assert "no speculation: not tried" in untried
    assert "served anew: not tried" in untried
    assert "UNDECIDED" in soak("probe", "run", key, "--repeats", "4", "--into", "probe").out
    planned = soak("probe", "run", key, "--repeats", "4", "--into", "probe", "--plan", "--json").json
    assert planned["kept"] == sum(one["asked"] for one in found["outcomes"])


def test_a_turn_that_is_ok_is_not_triaged(soak: Soak, fake: Fakes) -> None:
    """Nothing is sent to find out why a turn broke that did not."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    before = server.truth_file.read_bytes()
    command = soak("probe", "run", key)
    assert command.code == 2
    assert "did not break" in command.error_lines()[0]
    assert server.truth_file.read_bytes() == before


def test_a_turn_that_we_cut_short_is_known_beforehand(soak: Soak, fake: Fakes) -> None:
    """With fewer tokens allowed than the recorded answer has it is our limit: the plan says so, nothing is sent."""
    server = fake("--rates", "none")
    short = ("--set", "sampling.max_tokens=5")
    run = soak("run", "--scenario", "smoke", "--target", server.url, "--turns", "2", "--run", "run", *short)
    assert run.code in (0, 1, 3), run.err
    key = next(word for word in soak("show", "run").out.split() if word.endswith(":0:0:candidate"))
    before = server.truth_file.read_bytes()
    planned = soak("probe", "run", key, "--plan", "--json").json
    assert (planned["requests"], planned["servers"], planned["untried"]) == (0, [], [])
    assert planned["known"].startswith("client: max_tokens is 5, and the answer recorded here has at least ")
    assert "nothing is sent" in soak("probe", "run", key, "--plan").out
    found = soak("probe", "run", key, "--json")
    assert (found.code, found.json["failure"], found.json["cause"]) == (0, "max_tokens", "client"), found.err
    assert "CLIENT: max_tokens is 5" in soak("probe", "run", key).out
    assert server.truth_file.read_bytes() == before


def test_a_failure_without_which_speculation_goes_is_named(soak: Soak, fake: Fakes) -> None:
    """Beside a second server without it, loops of the first are speculation's; the plan's number is not exceeded."""
    server = fake("--rates", "loop=1")
    plain = fake("--rates", "none", "--speculation", "off")
    key = a_run(soak, server)
    arguments = ("probe", "run", key, "--plain", plain.url, "--repeats", "6", "--into", "probe", "--json")
    planned = soak(*arguments, "--plan").json
    found = soak(*arguments)
    assert (found.code, found.json["cause"]) == (0, "engine: speculation"), found.err
    assert found.json["requests"] <= planned["requests"]
    asked = [one for one in found.json["outcomes"] if one["server"] == "no speculation"]
    assert [(one["asked"], "salted" in one["change"]) for one in asked] == [(6, False), (6, True)]
    assert any("one look" in text for text in found.json["open"])


def test_greedy_answers_of_two_servers_are_held_against_each_other(soak: Soak, fake: Fakes) -> None:
    """Equal servers never part; with another seed answers part widely; with none, or one that speculates: told."""
    server = fake("--rates", "none")
    twin = fake("--rates", "none", "--speculation", "off")
    other = fake("--rates", "none", "--speculation", "off", "--seed", "8")
    key = a_run(soak, server)
    arguments = ("probe", "run", key, "--diverge", "--json")
    same = soak(*arguments, "--plain", twin.url, "--into", "same")
    assert (same.code, same.json["result"]) == (0, "same"), same.err
    kept = soak(*arguments, "--plain", twin.url, "--into", "same", "--plan").json
    assert kept["kept"] == kept["requests"] == 6
    apart = soak(*arguments, "--plain", other.url, "--into", "other")
    assert apart.json["parted"] == 1
    assert apart.json["result"] in ("deviates", "undecided")
    assert soak(*arguments).code == 2
    speculating = soak(*arguments, "--plain", fake("--rates", "none").url, "--into", "wrong")
    assert speculating.code == 5
    assert "runs with speculation" in speculating.error_lines()[0]


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


def test_a_full_disk_is_told_and_what_was_kept_stays(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A journal that the disk does not take ends the probe with three lines and the way on, not with a traceback."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "trials.jsonl").symlink_to("/dev/full")
    command = soak("probe", "run", key, "--only-repeats", "--repeats", "3", "--into", "probe")
    assert command.code == 7, command.err
    assert "Traceback" not in command.err
    (tmp_path / "file").write_text("")
    assert soak("probe", "run", key, "--only-repeats", "--into", "file").code == 7


def test_another_server_at_the_same_address_is_refused(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Answers of one server are never counted with those of the next one at its URL."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    arguments = ("probe", "run", key, "--only-repeats", "--repeats", "2", "--into", "probe")
    assert soak(*arguments).code == 0
    servers = tmp_path / "probe" / "servers.jsonl"
    assert soak(*arguments).code == 0, "the same one goes on"
    told = json.loads(servers.read_text())
    told["build"]["version"] = "0.1"
    servers.write_text(json.dumps(told) + "\n")
    command = soak(*arguments)
    assert command.code == 7
    assert "another server" in command.error_lines()[0]


def test_a_server_is_not_held_against_itself(soak: Soak, fake: Fakes) -> None:
    """`--plain` with the target itself is refused where it is needed, and told as untried in a triage."""
    server = fake("--rates", "loop=1")
    key = a_run(soak, server)
    command = soak("probe", "run", key, "--diverge", "--plain", server.url)
    assert command.code == 2
    assert "against itself" in command.err
    planned = soak("probe", "run", key, "--plain", server.url, "--plan")
    assert "no speculation" in planned.out
    assert "not tried" in planned.out


def test_numbers_that_cannot_be_asked_are_refused(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A turn file with no room for tokens, no request at once or a seed beyond 63 bits is exit code 4."""
    server = fake("--rates", "none")
    case = {"schema": "soak.case/1", "name": "x", "messages": [{"role": "user", "content": "a"}]}
    for wrong in (
        {"in_flight": 0},
        {"seed": 2**70},
        {"sampling": {"max_tokens": 0}},
        {"sampling": {"temperature": -1}},
    ):
        (tmp_path / "turn.json").write_text(json.dumps(case | wrong))
        command = soak("probe", "--turn-file", "turn.json", "--target", server.url, "--only-repeats")
        assert command.code == 4, (wrong, command.err)


def test_a_turn_file_cannot_ask_for_the_key(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A key of the user's is not sent to a server that only the turn file names."""
    server = fake("--rates", "none")
    case = {"schema": "soak.case/1", "name": "x", "messages": [{"role": "user", "content": "a"}], "build": server.url}
    (tmp_path / "turn.json").write_text(json.dumps(case))
    arguments = ("probe", "--turn-file", "turn.json", "--only-repeats", "--repeats", "1")
    assert soak(*arguments, env={"SOAK_API_KEY": "sk-secret"}).code == 2
    assert soak(*arguments).code == 0


def test_a_turn_without_tools_needs_nobody_who_takes_calls(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """A turn file that names no tools is asked of a server without native calls; one with tools is not."""
    server = fake("--rates", "none", "--no-native-tools")
    case = {"schema": "soak.case/1", "name": "x", "messages": [{"role": "user", "content": "a"}]}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    for tools, code in (((), 0), ((tool,), 5)):
        (tmp_path / "turn.json").write_text(json.dumps(case | {"tools": tools}))
        command = soak("probe", "--turn-file", "turn.json", "--target", server.url, "--only-repeats", "--repeats", "1")
        assert command.code == code, command.err


def test_an_interrupted_probe_says_how_to_go_on(soak: Soak, begin: Soak, fake: Fakes, tmp_path: Path) -> None:
    """SIGINT is exit code 130, with the folder in which the answers so far are kept."""
    server = fake("--rates", "none", "--first-chunk-s", "0.2")
    key = a_run(soak, server)
    command = begin("probe", "run", key, "--only-repeats", "--repeats", "50")
    kept = list[Path]()

    def answered() -> bool:
        kept[:] = tmp_path.glob("probes/*/trials.jsonl")
        return bool(kept) and kept[0].read_bytes().count(b"\n") >= 2

    wait_until(answered, what="two answers")
    command.signal(signal.SIGINT)
    command.wait()
    assert command.code == 130
    assert f"--into probes/{kept[0].parent.name} goes on" in command.err
    assert "Traceback" not in command.err


def test_what_was_not_answered_is_asked_again(soak: Soak, fake: Fakes, tmp_path: Path) -> None:
    """Answers that never came, for the server was down, are asked for by the next process; the others are not."""
    server = fake("--rates", "none")
    key = a_run(soak, server)
    arguments = ("probe", "run", key, "--only-repeats", "--repeats", "3", "--into", "probe", "--json")
    assert soak(*arguments).code == 0
    trials = tmp_path / "probe" / "trials.jsonl"
    first, second, third = (json.loads(line) for line in trials.read_text().splitlines())
    second["observation"] |= {"ending": "unreachable", "content": ""}
    second["judgement"]["class_" if "class_" in second["judgement"] else "class"] = "error"
    trials.write_text("".join(json.dumps(one) + "\n" for one in (first, second, third)))
    again = soak(*arguments)
    assert again.json["outcomes"][0]["classes"] == {"ok": 3}, again.err
    assert len(trials.read_text().splitlines()) == 4

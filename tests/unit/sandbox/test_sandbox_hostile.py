"""Hostile commands, really run: each meets a wall or a limit, and nothing of it is left on the host."""

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.walls import skip_without_walls

from soak.errors import SandboxError
from soak.sandbox import Bubblewrap, Ended, Limits, Place, View
from soak.sandbox.processes import descendants

MIB = 1 << 20
LIMITS = Limits(time_s=20.0, processes=48, memory_bytes=200 * MIB, disk_bytes=16 * MIB, files=500, output_bytes=100_000)
VIEW = View.of_this_interpreter()


@pytest.fixture(scope="module", autouse=True)
def usable() -> None:
    skip_without_walls()


@pytest.fixture
def place() -> Iterator[Place]:
    with Place(python=VIEW.python) as made:
        made.put({"src/a.txt": "alpha\n"})
        yield made


def run(place: Place, command: str, **changes: float) -> Ended:
    fields = {name: getattr(LIMITS, name) for name in Limits.__dataclass_fields__}
    return Bubblewrap(place, VIEW).run(command, Limits(**{**fields, **changes}))


@pytest.fixture
def others() -> set[int]:
    """The processes below ours before the test: other tests of the session have children of their own."""
    return set(descendants(os.getpid()))


def test_an_ordinary_command_sees_the_repository_and_python(place: Place) -> None:
    """A command runs in the repository, as a user called agent, with Python and git at hand."""
    ended = run(place, "whoami; cat src/a.txt; python -c 'print(6 * 7)'; git init -q . && echo git; exit 3")
    assert ended.output.split() == ["agent", "alpha", "42", "git"]
    assert (ended.ended, ended.code) == ("exit", 3)


def test_what_a_command_writes_stays_for_the_next_one(place: Place) -> None:
    """The repository, /tmp and the home folder live as long as the place, other state does not."""
    run(place, "echo one > b; echo two > /tmp/c; echo three > ~/d; export X=1; cd src")
    assert run(place, "cat b /tmp/c ~/d; echo $X; pwd").output.split() == ["one", "two", "three", "/workspace"]


def test_the_environment_is_not_passed_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours reaches a command, so no API key does."""
    monkeypatch.setenv("SOAK_API_KEY", "canary-4711")
    ended = run(place, "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' ' '")
    assert "PATH=" in ended.output
    assert "canary-4711" not in ended.output


def test_files_of_the_host_are_not_there(place: Place, tmp_path: Path) -> None:
    """Neither passwords, nor home folders, nor the temporary folder, nor the checkout of this project can be read."""
    secret = tmp_path / "secret"
    secret.write_text("canary-4712")
    here = Path(__file__)
    folders = f"ls ~root /var {here.parent}; cd /proc/1; ls root/"
    ended = run(place, f"cat /etc/shadow {secret} {here} ~root/.bashrc; {folders}")
    assert ended.code != 0
    assert "canary" not in ended.output
    assert "root:x:" not in ended.output
    assert here.name not in ended.output.replace(str(here), "")


def test_nothing_can_be_written_outside_the_place(place: Place) -> None:
    """The system's folders, /etc, /opt and the root are read-only."""
    ended = run(
        place, "for d in / /usr /usr/bin /etc /opt /opt/bin /home /dev; do touch $d/x 2>/dev/null && echo $d; done"
    )
    assert ended.output == ""


def test_a_link_out_of_the_place_leads_nowhere(place: Place, tmp_path: Path) -> None:
    """A symbolic link to the host's files points to nothing inside, and is removed and not followed at the end."""
    kept = tmp_path / "kept"
    kept.write_text("canary")
    ended = run(place, f"ln -s {tmp_path} out; cat out/kept; echo gone > out/kept")
    assert "canary" not in ended.output
    place.remove()
    assert kept.read_text() == "canary"


def test_no_network(place: Place) -> None:
    """A server of the host's loopback cannot be reached, and no address outside can."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = run(
            place,
            f"(echo > /dev/tcp/127.0.0.1/{port}) && echo reached; (echo > /dev/tcp/192.0.2.1/80) && echo reached;"
            "tail -n +3 /proc/net/dev | cut -d: -f1",
        )
    assert "Connection refused" in ended.output
    assert "unreachable" in ended.output
    assert "reached" not in ended.output.split()
    assert ended.output.split()[-1] == "lo"


def test_a_fork_bomb_runs_into_the_limit(place: Place, others: set[int]) -> None:
    """Processes beyond the limit are refused, and all are gone when the command has ended."""
    ended = run(place, ":(){ :|:& };:; sleep 0.5; echo end", time_s=5.0)
    assert "Resource temporarily unavailable" in ended.output or ended.ended in ("processes", "output", "time")
    assert set(descendants(os.getpid())) <= others


def test_a_memory_hog_is_ended(place: Place) -> None:
    """One process beyond the memory is ended or refused, and so are several that share it out."""
    one = run(place, "python -c 'x = bytearray(300 << 20); input()'; python -c 'bytearray(500 << 20)'; sleep 1")
    assert one.ended == "memory" or "MemoryError" in one.output
    many = run(place, "for i in 1 2 3 4 5 6; do python -c 'x = bytearray(60 << 20); input()' < <(sleep 9) & done; wait")
    assert many.ended == "memory"


def test_a_gigabyte_of_output_is_cut(place: Place) -> None:
    """Output beyond the limit ends the command; what came before is kept, at most the limit."""
    ended = run(place, "yes | head -c 1000000000")
    assert (ended.ended, ended.code) == ("output", None)
    assert len(ended.output) == LIMITS.output_bytes


@pytest.mark.parametrize(
    "command",
    [
        "head -c 100000000 /dev/zero > big; sleep 2",
        "for i in $(seq 40); do head -c 1000000 /dev/zero > f$i; done; sleep 2",
        "head -c 9000000 /dev/zero > /tmp/a; head -c 9000000 /dev/zero > ~/b; sleep 2",
        "for i in $(seq 600); do : > n$i; done; sleep 2",
        "mkdir h; for i in $(seq 40); do head -c 1000000 /dev/zero > h/$i; done; chmod 000 h; sleep 2",
        'python -c \'import os\nfor _ in range(2500): os.mkdir("d"); os.chdir("d")\'; sleep 2',
        'for n in {10..13}; do eval "exec $n>f; head -c 9000000 /dev/zero >&$n"; rm f; done; sleep 9',
        "python -c 'import os, time\nfor _ in (1, 2): os.write(os.memfd_create(str()), bytes(9 << 20))\ntime.sleep(9)'",
    ],
)
def test_a_full_disk_ends_the_command(place: Place, command: str) -> None:
    """One big file, many, folders shut or nested without end, files without a name: the place's limit holds for all."""
    assert run(place, command).ended == "disk"
    place.remove()
    assert not place.root.exists()


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("x='" + "y" * 300_000 + "'; echo ${#x}", "300000\n", 0),
        ("echo caf\u00e9 \ud800", "caf\u00e9 ?\n", 0),
        ("cat <<'E'\na 'b' \"c\" $d `e`\nE\nexit 3", "a 'b' \"c\" $d `e`\n", 3),
        ("", "", 0),
    ],
)
def test_any_text_can_be_a_command(place: Place, command: str, output: str, code: int) -> None:
    """Commands longer than an argument may be, with quotes, line breaks or broken characters run as they are."""
    ended = run(place, command)
    assert (ended.output, ended.code, ended.ended) == (output, code, "exit")


def test_a_command_with_a_nul_is_refused_by_the_shell(place: Place) -> None:
    """A NUL in a command ends that command with an error, not us."""
    assert run(place, "echo a\0b").code not in (0, None)


def test_time_is_up_whatever_the_command_ignores(place: Place, others: set[int]) -> None:
    """A command that ignores every signal it can is killed at its time, with what it wrote until then."""
    ended = run(place, "trap '' TERM INT HUP QUIT; echo begun; while :; do :; done", time_s=0.7)
    assert (ended.ended, ended.code, ended.output) == ("time", None, "begun\n")
    assert set(descendants(os.getpid())) <= others


def test_killing_everything_in_sight_harms_nobody_outside(place: Place) -> None:
    """Neither the parent, nor all processes, nor the process group of ours can be killed from inside."""
    ended = run(place, f"kill -9 $PPID; kill -9 {os.getpid()}; kill -9 -1; kill -9 0")
    assert ended.ended == "exit"
    assert run(place, "echo here").output == "here\n"


def test_background_processes_end_with_their_command(place: Place, others: set[int]) -> None:
    """A daemon in a session of its own does not outlive the command that started it, nor keep it open."""
    ended = run(place, "setsid sleep 600 & (setsid nohup sleep 600 >/dev/null 2>&1 &); echo done")
    assert ended.output == "done\n"
    assert ended.took_s < LIMITS.time_s / 2
    assert set(descendants(os.getpid())) <= others


def test_a_command_can_be_stopped_from_another_thread(place: Place) -> None:
    """Once told to stop, a running command is ended and says so."""
    stop = threading.Event()
    ended: list[Ended] = []
    walls = Bubblewrap(place, VIEW)
    thread = threading.Thread(target=lambda: ended.append(walls.run("echo up; sleep 600", LIMITS, stop.is_set)))
    thread.start()
    stop.set()
    thread.join(15)
    assert [one.ended for one in ended] == ["stopped"]


def test_privileges_cannot_be_gained(place: Place) -> None:
    """A command is no superuser, holds no capability, and cannot mount or trace anything outside."""
    ended = run(
        place, "id -u; grep -E 'Cap(Eff|Prm)|NoNewPrivs' /proc/self/status; mount -t tmpfs x /tmp; chroot / true"
    )
    words = ended.output.split()
    assert words[0] != "0"
    assert [words[i + 1] for i, word in enumerate(words) if word in ("CapEff:", "CapPrm:")] == ["0" * 16] * 2
    assert words[words.index("NoNewPrivs:") + 1] == "1"
    assert ended.code != 0


def test_hidden_folders_are_empty(tmp_path: Path) -> None:
    """A hidden folder inside a mounted one shows nothing, while what lies beside it does."""
    package = tmp_path / "package"
    (package / "hidden").mkdir(parents=True)
    (package / "hidden" / "tests.py").write_text("canary")
    (package / "shown.py").write_text("plain")
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    view = View(mounts=((package, Path("/opt/site/package")),), hidden=(package / "hidden",), python=VIEW.python)
    view = View(mounts=(*VIEW.mounts, *view.mounts), hidden=view.hidden, python=view.python)
    with Place(python=view.python) as place:
        ended = Bubblewrap(place, view).run("cat /opt/site/package/shown.py; ls -A /opt/site/package/hidden", LIMITS)
    assert ended.output == "plain"


def test_a_machine_without_bubblewrap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tool is missing nothing is run, and the refusal says what to install; the exit code is 5."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError) as caught:
        Bubblewrap.refuse_if_unusable(VIEW)
    assert caught.value.exit_code == 5
    assert "bwrap" in caught.value.why
    assert "apt-get install bubblewrap" in caught.value.hint


def test_walls_that_do_not_stand_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap that fails on this machine is refused with its own words."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SandboxError, match="cannot be run shut away") as caught:
        Bubblewrap.refuse_if_unusable(VIEW)
    assert "No permissions to create new namespace" in caught.value.why


def test_what_a_killed_process_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of processes that are no more are removed; those of living ones and other things stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("soak-sandbox-999999999-a/work", f"soak-sandbox-{os.getpid()}-b", "soak-sandbox-mine", "other-1-a"):
        (tmp_path / name).mkdir(parents=True)
    Place.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"soak-sandbox-{os.getpid()}-b", "soak-sandbox-mine", "other-1-a"]
    )


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b"])
def test_files_cannot_be_put_outside(place: Place, name: str) -> None:
    """A tasks file cannot write outside the repository it describes."""
    with pytest.raises(SandboxError):
        place.put({name: "x"})


def test_files_that_cannot_be_written_are_refused(place: Place) -> None:
    """A file that is to lie in another file, or a full disk, is an error in words."""
    with pytest.raises(SandboxError, match=r"'src/a\.txt/b' cannot be put into a sandbox"):
        place.put({"src/a.txt/b": ""})


def test_the_interpreter_is_the_one_that_runs_soak(place: Place) -> None:
    """The Python inside has the version of the one outside."""
    ended = run(place, "python3 -c 'import sys; print(*sys.version_info[:3])'")
    assert ended.output.split() == [str(number) for number in sys.version_info[:3]]

"""Wrong input: for each mistake its exit code and three lines of error, and never a traceback."""

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rigs.cli import Command, Fake, ends_of, environment, free_port

Soak = Callable[..., Command]
Fakes = Callable[..., Fake]

SCENARIO = """\
name: mine
question: Does it work?
duration: a minute
corpus: {corpus}
budget:
  passes: 1
"""
FIVE_MISTAKES = """\
name: five
question: What is wrong here?
duration: a minute
corpus: smoke
smapling: {}
sampling:
  temperature: hot
load:
  shape: closed
  in_flight: 0
budget:
  hours: 1
  passes: 2
thresholds:
  pass_if:
    - rate.garbage <= 1%
"""


@pytest.fixture
def answering() -> Iterator[Callable[[bytes, str], str]]:
    """Start a server that gives one answer to everything; returns its URL."""
    listeners: list[socket.socket] = []

    def answering(body: bytes, kind: str) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(head.encode() + body)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield answering
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def corpus_in(folder: Path, line: bytes) -> Path:
    """Make a corpus of one file with this one line."""
    folder.mkdir()
    (folder / "episodes.jsonl").write_bytes(line + b"\n")
    return folder


def scenario_in(folder: Path, corpus: str) -> Path:
    """Make a scenario that uses this corpus."""
    path = folder / "mine.yaml"
    path.write_text(SCENARIO.format(corpus=corpus))
    return path


def test_a_scenario_with_five_mistakes_names_all_five(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """All five mistakes of a scenario come at once, each with its line, before any request; exit code 4."""
    (tmp_path / "five.yaml").write_text(FIVE_MISTAKES)
    asked = steady.state()["chats"]
    done = soak("run", "--scenario", "five.yaml", "--target", steady.url)
    assert done.code == 4
    what, why, _ = done.error_lines()
    assert "five.yaml" in what + why
    for line, word in ((5, "smapling"), (7, "temperature"), (10, "in_flight"), (11, "budget"), (16, "rate.garbage")):
        assert word in why
        assert f"{line}" in why
    assert steady.state()["chats"] == asked
    assert not (tmp_path / "runs").exists()


def test_a_target_nobody_listens_at(soak: Soak, tmp_path: Path) -> None:
    """An unreachable target is exit code 5, and no run folder is made."""
    done = soak("run", "--scenario", "smoke", "--target", f"http://127.0.0.1:{free_port()}")
    assert done.code == 5
    what, why, _ = done.error_lines()
    assert "cannot reach" in what
    assert why == "  why: Connection refused"
    assert not (tmp_path / "runs").exists()


def test_a_target_that_answers_html(soak: Soak, answering: Callable[[bytes, str], str]) -> None:
    """A web page is not an OpenAI-compatible server: exit code 5, and the error shows what came."""
    url = answering(b"<html><body>It works!</body></html>", "text/html")
    done = soak("run", "--scenario", "smoke", "--target", url)
    assert done.code == 5
    what, why, _ = done.error_lines()
    assert "is not an OpenAI-compatible server" in what
    assert "text/html" in why


def test_doctor_looks_at_the_rest_where_the_target_is_dead(soak: Soak) -> None:
    """A target that nobody listens at is one problem among what doctor found, and exit code 5."""
    done = soak("doctor", "--json", "--target", f"http://127.0.0.1:{free_port()}")
    assert done.code == 5
    states = {check["name"]: check["state"] for check in done.json["checks"]}
    assert {"packages", "extra report", "local build", "cache", "disk", "bubblewrap", "open files"} <= states.keys()
    assert [name for name, state in states.items() if state == "problem"] == ["target"]
    assert "do: is the server up" in soak("doctor", "--target", f"http://127.0.0.1:{free_port()}").out


def test_doctor_does_not_start_a_build(soak: Soak) -> None:
    """A build is no server to ask: exit code 2, and how to start it."""
    done = soak("doctor", "--target", "local")
    assert done.code == 2
    assert "soak serve local" in done.error_lines()[2]


def test_a_wrong_scenario_comes_before_the_embedded_build(soak: Soak, tmp_path: Path) -> None:
    """Without a target a scenario that is not there is refused before anything is said or done about a build."""
    for target in ((), ("--target", "local")):
        done = soak("run", "--scenario", "nope", *target)
        assert done.code == 4
        assert len(done.error_lines()) == 3
        assert "embedded" not in done.err
    assert not (tmp_path / "runs").exists()


def test_a_target_with_two_models(soak: Soak, answering: Callable[[bytes, str], str]) -> None:
    """Two models and no --model: exit code 5, both named, and --model as the way out."""
    models = [{"id": name, "object": "model", "owned_by": "vllm"} for name in ("first", "second")]
    url = answering(json.dumps({"object": "list", "data": models}).encode(), "application/json")
    done = soak("run", "--scenario", "smoke", "--target", url)
    assert done.code == 5
    _, why, do = done.error_lines()
    assert "first, second" in why
    assert "--model" in do


def test_a_model_the_target_does_not_have(soak: Soak, steady: Fake) -> None:
    """A model that is not there: exit code 5, and those that are."""
    done = soak("run", "--scenario", "smoke", "--target", steady.url, "--model", "other")
    assert done.code == 5
    assert "fake-model" in done.error_lines()[1]


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1:1", "127.0.0.1:8000", "http://", "http://host:99999", "http://h:1/?k=v"]
)
def test_a_target_that_is_no_url(soak: Soak, url: str) -> None:
    """What is not an http URL with a host cannot be carried out: exit code 2."""
    done = soak("run", "--scenario", "smoke", "--target", url)
    assert done.code == 2
    done.error_lines()


def halved(folder: Path) -> None:
    history = folder / "history.sqlite"
    history.write_bytes(history.read_bytes()[: history.stat().st_size // 2])


def without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def cut_manifest(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text[: len(text) // 2])


def without_history(folder: Path) -> None:
    (folder / "history.sqlite").unlink()


@pytest.fixture(scope="session")
def finished(nursery: object, steady: Fake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    cwd = tmp_path_factory.mktemp("finished")
    command = nursery.begin("run", "--scenario", "smoke", "--target", steady.url, "--run", "run", cwd=cwd)  # type: ignore[attr-defined]
    assert command.wait().code == 0
    return cwd / "run"


@pytest.mark.parametrize("damage", [halved, without_manifest, cut_manifest, without_history])
def test_a_run_folder_cut_in_half(soak: Soak, finished: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Each command that reads a damaged run folder ends with exit code 7 and names what is damaged."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    damage(folder)
    for command in (("check", folder), ("show", folder), ("compare", folder, finished), ("resume", folder)):
        done = soak(*command)
        assert done.code == 7, command
        done.error_lines()


@pytest.mark.parametrize("command", ["check", "show", "resume"])
def test_a_folder_that_is_no_run(soak: Soak, tmp_path: Path, command: str) -> None:
    """A folder without a run, or no folder at all: exit code 7."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "absent"):
        done = soak(command, name)
        assert done.code == 7
        assert "is not a run folder" in done.error_lines()[0]


def test_a_corpus_line_of_50_megabytes(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """A line of 50 MB is either an episode or refused by its line; it never takes the program down."""
    corpus_in(tmp_path / "huge", b'{"schema": "soak.episode/1", "id": "a", "messages": [' + b" " * 50_000_000 + b"oops")
    for command in (("corpus", "check", "huge"), ("run", "--scenario", scenario_in(tmp_path, "huge"), "--plan")):
        done = soak(*command)
        assert done.code == 4
        assert "episodes.jsonl:1" in " ".join(done.error_lines())


def test_a_corpus_that_is_not_utf_8(soak: Soak, tmp_path: Path) -> None:
    """A file in another encoding is refused by its line: exit code 4."""
    line = '{"schema": "soak.episode/1", "id": "a", "messages": [{"role": "user", "content": "Grüße"}]}'
    corpus_in(tmp_path / "latin", line.encode("latin-1"))
    for command in (("corpus", "check", "latin"), ("run", "--scenario", scenario_in(tmp_path, "latin"), "--plan")):
        done = soak(*command)
        assert done.code == 4
        what, why, _ = done.error_lines()
        assert "episodes.jsonl:1" in what
        assert "UTF-8" in why


@pytest.mark.parametrize("bad", [b"\xff\xfe{", b"[" * 100_000, b'{"messages": "x"}', b"null"])
def test_transcripts_that_are_none(soak: Soak, tmp_path: Path, bad: bytes) -> None:
    """What cannot be read as a transcript is refused: exit code 4, and no corpus is made."""
    (tmp_path / "bad.jsonl").write_bytes(bad)
    done = soak("import", "bad.jsonl", "--into", "corpus")
    assert done.code == 4
    done.error_lines()
    assert not (tmp_path / "corpus").exists()


def test_an_unknown_scenario(soak: Soak, steady: Fake) -> None:
    """A scenario that is not there: exit code 4, and a near one is named."""
    done = soak("run", "--scenario", "swe_agnt", "--target", steady.url)
    assert done.code == 4
    assert "swe_agent" in " ".join(done.error_lines())


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--hours", 1, "--turns", 5), 2),
        (("--set", "nonsense"), 2),
        (("--set", "=3"), 2),
        (("--arm", "a=http://x:1", "--target", "http://y:1"), 2),
        (("--arm", "a=http://x:1", "--arm", "a=http://y:1"), 2),
        (("--arm", "nothing"), 2),
        (("--set", "no.such.field=3"), 4),
        (("--set", "sampling.temperature=hot"), 4),
        (("--turns", 0), 4),
        (("--set", "extra_body={\"stream\": false}"), 4),
        (("--set", "thresholds.pass_if=[\"rubbish\"]"), 4),
    ],
)  # fmt: skip
def test_a_command_line_that_makes_no_sense(soak: Soak, steady: Fake, args: tuple[object, ...], code: int) -> None:
    """Budgets, settings and arms that cannot be meant are refused before anything is sent."""
    target = () if "--arm" in args else ("--target", steady.url)
    asked = steady.state()["chats"]
    done = soak("run", "--scenario", "smoke", *target, *args)
    assert done.code == code, done.err
    done.error_lines()
    assert steady.state()["chats"] == asked


@pytest.mark.parametrize("args", [("--no-such-flag",), ("--turns", "many"), ()])
def test_typos_are_usage_errors(soak: Soak, args: tuple[str, ...]) -> None:
    """What the command line's grammar does not know is exit code 2."""
    assert soak("run", *args).code == 2


def test_a_full_disk_ends_the_run_and_it_can_go_on(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """A disk that takes no more ends the run with exit code 7; with room again, resume completes it."""
    limit = {"RLIMIT_FSIZE": 400_000}
    done = soak("run", "--scenario", "smoke", "--target", steady.url, "--passes", 60, "--run", "run", limits=limit)
    assert done.code == 7
    assert "cannot write to" in done.error_lines()[0]
    resumed = soak("resume", "run", "--json")
    assert resumed.json["state"] == "complete"
    ends = ends_of(tmp_path / "run")["finished"]
    assert len(ends) == len(set(ends)) == 660


def test_a_folder_that_cannot_be_written(soak: Soak, steady: Fake, finished: Path, tmp_path: Path) -> None:
    """In a read-only place no run can begin or go on (exit code 7), but one that is there can be judged."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    place = (*folder.iterdir(), folder, tmp_path)
    for path in place:
        path.chmod(0o555 if path.is_dir() else 0o444)
    begun = soak("run", "--scenario", "smoke", "--target", steady.url, "--run", tmp_path / "new", powerless=True)
    assert begun.code == 7, begun.err
    assert "cannot write to" in begun.error_lines()[0]
    assert soak("check", folder, powerless=True).code == 0
    resumed = soak("resume", folder, powerless=True)
    assert resumed.code == 7
    resumed.error_lines()
    for path in reversed(place):
        path.chmod(0o755)


def test_a_path_taken_by_something_else(soak: Soak, steady: Fake, finished: Path, tmp_path: Path) -> None:
    """`--run` never writes into a folder with something in it: exit code 7."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("precious")
    for folder in (tmp_path / "taken", finished):
        done = soak("run", "--scenario", "smoke", "--target", steady.url, "--run", folder)
        assert done.code == 7
        done.error_lines()
    assert (tmp_path / "taken" / "thesis.txt").read_text() == "precious"


def test_a_corpus_that_changed_is_not_resumed(soak: Soak, steady: Fake, tmp_path: Path) -> None:
    """Resume refuses a run whose corpus is no longer the one it was begun with: exit code 4."""
    line = {"schema": "soak.episode/1", "id": "a", "messages": [{"role": "user", "content": "Hello"}]}
    line["messages"].append({"role": "assistant", "content": "Hello to you"})  # type: ignore[attr-defined]
    corpus = corpus_in(tmp_path / "mine", json.dumps(line).encode())
    soak("run", "--scenario", scenario_in(tmp_path, "mine"), "--target", steady.url, "--run", "run")
    text = (corpus / "episodes.jsonl").read_text()
    (corpus / "episodes.jsonl").write_text(text.replace("Hello to you", "Good day"))
    done = soak("resume", "run")
    assert done.code == 4
    assert "is not the one the run was begun with" in done.error_lines()[0]


def test_another_build_is_not_resumed(soak: Soak, begin: Soak, fake: Fakes, answering: object, tmp_path: Path) -> None:
    """Resume refuses a target that is another model: exit code 5."""
    server = fake("--rates", "none")
    assert soak("run", "--scenario", "smoke", "--target", server.url, "--run", "run").code == 0
    other = fake("--model", "another")
    done = soak("resume", "run", "--target", other.url)
    assert done.code == 5
    assert "fake-model" in " ".join(done.error_lines())


def test_debug_shows_where(soak: Soak) -> None:
    """Only --debug shows a traceback, above the same three lines."""
    done = soak("--debug", "check", "absent")
    assert done.code == 7
    assert "Traceback" in done.err
    assert "error: " in done.err


def test_a_reader_that_goes_away_is_no_error(finished: Path) -> None:
    """A reader that closes the pipe, as `head` does, is met with silence and exit code 0."""
    command = [sys.executable, "-m", "soak.cli", "show", str(finished)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 0

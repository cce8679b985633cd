"""`soak probe --shrink` and `soak repro`, and the bundle in an interpreter that knows no soak."""

import json
import re
import sys
import zipfile
from asyncio import create_subprocess_exec, subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes import Ask, FakeServer, Script, make, status
from rigs.cli import Command, environment
from rigs.replaying import until

Begin = Callable[..., Command]


def poisoned(ask: Ask) -> Script:
    """Loop in two of three answers wherever the conversation holds the poison; answer well anywhere else."""
    bad = "poison" in json.dumps(ask.body["messages"]) and ask.rng.random() < 0.67
    return make("loop" if bad else "none", ask)


def healthy(ask: Ask) -> Script:
    """Answer well."""
    return make("none", ask)


def turn(folder: Path) -> Path:
    """Write a turn file of 22 messages, one of which is poisoned."""
    roles = ["system", *(["user", "assistant"] * 10), "user"]
    messages = [
        {"role": role, "content": f"{role} {number}: " + ("the poison " if number == 7 else "the reader ") * 3}
        for number, role in enumerate(roles)
    ]
    case = {"schema": "soak.case/1", "name": "talk", "messages": messages, "seed": 11, "sampling": {"max_tokens": 900}}
    path = folder / "turn.json"
    path.write_text(json.dumps(case))
    return path


async def ended(command: Command) -> Command:
    """Wait for a command without stopping the server in this loop."""
    await until(lambda: command.code is not None, within_s=120)
    return command


async def reproduced(bundle: Path, url: str, *more: str) -> tuple[int, str]:
    """Run the bundle's script in an isolated interpreter without site packages; return its exit code and output."""
    process = await create_subprocess_exec(
        sys.executable, "-I", "-S", "reproduce.py", url, *more,
        cwd=bundle, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_a_failure_is_shrunk_to_what_it_needs(begin: Begin, tmp_path: Path) -> None:
    """The poisoned message stays, hardly another does, and the turn file of the smallest form can be asked again."""
    async with FakeServer(poisoned) as server:
        turn(tmp_path)
        command = await ended(
            begin("probe", "--turn-file", "turn.json", "--target", server.url, "--shrink", "--into", "probe", "--json")
        )
        assert command.code == 0, command.err
        found = command.json
        assert found["after"]["messages"] <= 5 < found["before"]["messages"] == 22
        assert found["requests"] <= 410
        (file,) = found["files"]
        assert "poison" in (tmp_path / file).read_text()
        again = await ended(
            begin("probe", "--turn-file", file, "--target", server.url, "--repeats", "12", "--only-repeats", "--json")
        )
        assert again.json["outcomes"][0]["classes"]["garbage_loop"] >= 4


async def test_a_bundle_reproduces_without_soak(begin: Begin, tmp_path: Path) -> None:
    """Run by bare Python it shows the promised failure, none on a healthy server, and tells a dead one."""
    async with FakeServer(poisoned) as server:
        turn(tmp_path)
        command = await ended(
            begin("repro", "--turn-file", "turn.json", "--target", server.url, "-o", "loop.zip", "--json")
        )
        assert command.code == 0, command.err
        promise: dict[str, Any] = command.json["promise"]
        assert promise["failure"] == "garbage_loop"
        assert 0 < promise["low"] <= promise["failed"] <= promise["high"]
        assert promise["checker_agrees"] == promise["checked"] == 20
        with zipfile.ZipFile(tmp_path / "loop.zip") as bundle:
            bundle.extractall(tmp_path)
        folder = tmp_path / "loop"
        assert {path.name for path in folder.iterdir()} == {
            "README.md", "reproduce.py", "bodies.jsonl", "expected.json", "environment.json", "answers.jsonl"
        }  # fmt: skip
        seen = (folder / "answers.jsonl").read_bytes()
        code, out = await reproduced(folder, server.url)
        assert code == 0, out
        told = re.search(r"garbage_loop in (\d+) of 20 \(expected (\d+) to (\d+)\)", out)
        assert told is not None, out
        assert int(told[1]) == promise["failed"], "the same seeds give the same answers here"
        answers = [json.loads(line) for line in (folder / "reproduced.jsonl").read_text().splitlines()]
        assert len(answers) == 20
        assert (folder / "answers.jsonl").read_bytes() == seen, "what was seen stays as it was"
    code, out = await reproduced(folder, "http://127.0.0.1:9")
    assert code == 5
    assert "does not answer" in out
    async with FakeServer(healthy) as server:
        code, out = await reproduced(folder, server.url, "--repeats", "10")
        assert code == 1, out
        assert "garbage_loop in 0 of 10" in out


async def test_what_does_not_fail_makes_no_bundle(begin: Begin, tmp_path: Path) -> None:
    """A healthy server gives exit code 3, three lines and no file; a file that cannot be written is told first."""
    async with FakeServer(healthy) as server:
        turn(tmp_path)
        arguments = ("repro", "--turn-file", "turn.json", "--target", server.url, "--repeats", "5")
        command = await ended(begin(*arguments, "-o", "none.zip"))
        assert command.code == 3
        assert "a bundle must show what it promises" in command.error_lines()[1]
        assert not (tmp_path / "none.zip").exists()
        command = await ended(begin(*arguments, "-o", "absent/none.zip"))
        assert command.code == 2


async def test_what_a_smaller_form_is_refused_for_is_not_kept(begin: Begin, tmp_path: Path) -> None:
    """A server that refuses short conversations leaves the long one that fails, not a short one that is an error."""

    def picky(ask: Ask) -> Script:
        return status(400, "roles must alternate") if 1 < len(ask.body["messages"]) < 20 else poisoned(ask)

    async with FakeServer(picky) as server:
        turn(tmp_path)
        arguments = ("probe", "--turn-file", "turn.json", "--target", server.url, "--shrink", "--budget", "120")
        command = await ended(begin(*arguments, "--json"))
        assert command.code == 0, command.err
        assert command.json["failure"] == "garbage_loop"
        assert command.json["after"]["messages"] >= 20

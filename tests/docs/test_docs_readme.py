"""The README's commands, executed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from rigs.cli import ROOT, Fake, Nursery, environment

README = ROOT / "README.md"
AT_LEAST = 8
_FENCE = re.compile(r"^(?P<lead>[^\n]*)\n+```(?P<kind>console|bash|sh)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
_NOT_EXECUTED = re.compile(r"<!-- not executed: (?P<reason>.+?) -->")
_COMMENT = re.compile(r"(^|\s)#.*$")


class Block(NamedTuple):
    """One fenced block of commands: where it begins, its commands, and why they are not executed (None: they are)."""

    line: int
    commands: list[str]
    reason: str | None


def blocks_of(text: str) -> list[Block]:
    """
    Return the blocks of commands in a Markdown text.

    A block is fenced as `console` (commands begin with `$ `, anything else is output) or as `bash` (every line is a
    command). `<!-- not executed: reason -->` on the line before the fence exempts a block.
    """
    found = []
    for match in _FENCE.finditer(text):
        told = _NOT_EXECUTED.search(match["lead"])
        lines = match["body"].replace("\\\n", " ").splitlines()
        if match["kind"] == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        commands = [command for line in lines if (command := _COMMENT.sub("", line).strip())]
        found.append(Block(text[: match.start()].count("\n") + 1, commands, told["reason"] if told else None))
    return found


BLOCKS = blocks_of(README.read_text())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout's data, in which commands may leave run folders."""
    place = tmp_path_factory.mktemp("checkout")
    for name in ("scenarios", "transcripts"):
        shutil.copytree(ROOT / name, place / name)
    return place


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    """What SOAK_TARGET names: a server with a few faults, so that there is something to see."""
    with Fake(tmp_path_factory.mktemp("server"), "--rates", "early_stop=0.1,http_503_once=0.05") as server:
        yield server


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.reason is None], ids=lambda one: f"line {one.line}"
)
def test_commands_do_what_the_readme_says(nursery: Nursery, checkout: Path, target: Fake, block: Block) -> None:
    """Each `soak …` command of a block, one after the other, ends with a verdict's exit code and no error."""
    for text in block.commands:
        words = shlex.split(text)
        assert words[0] == "soak", f"README.md:{block.line}: `{text}` is no soak command; say why it is not executed"
        done = nursery.begin(*words[1:], cwd=checkout, env={"SOAK_TARGET": target.url}).wait(90)
        assert done.code in (0, 1, 3), f"{text}\n{done.err}"
        assert "error: " not in done.err
        assert "Traceback" not in done.err
        assert done.out.strip()


def test_enough_of_the_readme_is_executed() -> None:
    """Most of the README's commands are executed, and every block that is not says why."""
    executed = [command for block in BLOCKS if block.reason is None for command in block.commands]
    assert len(executed) >= AT_LEAST
    assert all(block.reason.strip() for block in BLOCKS if block.reason is not None)


def test_commands_that_are_not_executed_exist(nursery: Nursery, tmp_path: Path) -> None:
    """Commands left out because they take long or need more still name commands and flags that exist."""
    for command in (command for block in BLOCKS if block.reason is not None for command in block.commands):
        words = shlex.split(command)
        if words[0] != "soak":
            program = ROOT / words[0]
            assert program.is_file(), command
            assert os.access(program, os.X_OK), command
            continue
        helped = nursery.begin(words[1], "--help", cwd=tmp_path).wait()
        assert helped.code == 0, command
        flags = [word for word in words[2:] if word.startswith("--")]
        assert all(flag in helped.out for flag in flags), command


def test_links_lead_somewhere() -> None:
    """Every link of the README to a file of the project leads to one."""
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)\)", README.read_text()):
        assert (ROOT / link).exists(), link


def test_blocks_are_read_as_documented() -> None:
    """Console blocks give their `$` lines, bash blocks every line, and a comment before the fence exempts a block."""
    text = (
        "Text\n\n```console\n$ soak one  # why\noutput\n$ soak two \\\n    --flag\n```\n"
        "<!-- not executed: slow -->\n```bash\nsoak three\n```\n```yaml\nsoak: no\n```\n"
    )
    assert [block[1:] for block in blocks_of(text)] == [
        (["soak one", "soak two      --flag"], None),
        (["soak three"], "slow"),
    ]


def test_the_module_is_the_command() -> None:
    """`python -m soak.cli` is the same program as `soak`."""
    words = [sys.executable, "-m", "soak.cli", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=True, timeout=60)
    assert done.stdout.startswith("soak ")

"""
A place to run recorded commands in: fixed paths, fixed environment, limits, and outputs that repeat.

Commands run below `/tmp/soak-recorder` and their outputs show `/workspace/NAME` (and `/home/agent`, `/tmp`) instead.
The interpreter's own paths become those of a distribution's Python. Durations that pytest and unittest print are
computed from the number of tests, object addresses are numbered in the order in which an episode shows them. Nothing
else in an output is changed, except that the middle of a long one is left out (`clip`).
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path("/tmp/soak-recorder")
LIMIT_S = 60.0
LIMIT_BYTES = 4_000_000

_DURATION = re.compile(r"^(?P<head>.*\b(?:passed|failed|errors?|skipped|no tests ran|deselected)\b.*) in \d+\.\d+s")
_UNITTEST = re.compile(r"^(Ran \d+ tests?) in \d+\.\d+s")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{9,16}\b")
# Commands whose output order is the file system's, not the command's.
_START = r"(?:^|[|;&(]|\bdo\b|\bthen\b)\s*"
_UNSORTED = re.compile(_START + r"(?:find\s|grep\s+-[a-zA-Z]*[rR])", re.MULTILINE)
_MOMENT = re.compile(_START + r"(?:ls\s+-[a-zA-Z]*l|du\b|stat\b|ps\b|date\b|time\b)", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?.*?^\1$", re.MULTILINE | re.DOTALL)


class SandboxError(Exception):
    """A command cannot be recorded: it would not repeat, or it went over a limit."""


def fixed_order(command: str) -> bool:
    """Whether the command's output has an order and content of its own on every machine."""
    command = _HEREDOC.sub("", command)
    return not _MOMENT.search(command) and (not _UNSORTED.search(command) or "sort" in command)


@contextmanager
def workplace() -> Iterator["Sandbox"]:
    """Hold the one workplace of this machine (others wait) and give it away emptied."""
    try:
        ROOT.mkdir(mode=0o755, exist_ok=True)
        held = (ROOT / "lock").open("w")
    except OSError as problem:
        raise SandboxError(f"{ROOT} cannot be used (does it belong to another user?): {problem}") from None
    with held as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        box = Sandbox()
        try:
            yield box
        finally:
            box.empty()


class Sandbox:
    """One workplace; `fresh()` empties it for the next episode."""

    def __init__(self) -> None:
        self.work, self.home, self.tmp, self.bin = (ROOT / name for name in ("work", "home", "tmp", "bin"))
        self._addresses: dict[str, str] = {}
        self._paths = _shown_paths()

    def empty(self) -> None:
        """Remove everything but the lock."""
        for folder in (self.work, self.home, self.tmp, self.bin):
            shutil.rmtree(folder, ignore_errors=True)

    def fresh(self) -> None:
        """Empty the workplace and lay it out again."""
        self.empty()
        self._addresses.clear()
        for folder in (self.work, self.home, self.tmp, self.bin):
            folder.mkdir(parents=True)
        for name, start in (("python", ""), ("python3", ""), ("pytest", " -m pytest")):
            tool = self.bin / name
            tool.write_text(f'#!/bin/sh\nexec "{sys.executable}"{start} "$@"\n')
            tool.chmod(0o755)

    def run(self, command: str, folder: Path) -> tuple[str, int]:
        """Run a bash command in `folder`; return stdout and stderr as one normalised text, and the exit code."""
        if not fixed_order(command):
            raise SandboxError(f"the output of this command would not repeat: {command}")
        process = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc", "-c", command],
            cwd=folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o022,
        )
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise SandboxError(f"no end after {LIMIT_S:g} s: {command}") from None
        finally:
            _end_group(process)
        if len(output) > LIMIT_BYTES:
            raise SandboxError(f"{len(output)} bytes of output: {command}")
        return self.normalise(output.decode("utf-8", "replace")), process.returncode

    def environment(self) -> dict[str, str]:
        """Return the whole environment of a command; nothing of the caller's own gets in."""
        who = {"NAME": "Coding Agent", "EMAIL": "agent@example.org", "DATE": "2025-03-14T10:00:00+0000"}
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "USER": "agent",
            "LOGNAME": "agent",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "COLUMNS": "100",
            "LINES": "40",
            "NO_COLOR": "1",
            "PAGER": "cat",
            "GIT_PAGER": "cat",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUTF8": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_DEBUG_TEMPROOT": str(self.tmp),
            # A closed port: whatever honours proxies cannot reach a network by accident.
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
        }

    def normalise(self, text: str) -> str:
        """Return the text with all that belongs to this machine or moment replaced."""
        text = text.replace("\r\n", "\n").replace("\0", "\\0")
        for real, shown in self._paths:
            text = text.replace(real, shown)
        text = _ADDRESS.sub(self._address, text)
        return "\n".join(_fixed_duration(line) for line in text.split("\n"))

    def _address(self, found: re.Match[str]) -> str:
        return self._addresses.setdefault(found[0], f"0x{0x7F3C5E8A1000 + 0x1B0 * len(self._addresses):x}")


def _shown_paths() -> list[tuple[str, str]]:
    """Return (real, shown) path pairs, in the order in which they are to be replaced."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pairs = {
        str(ROOT / "work"): "/workspace",
        str(ROOT / "home"): "/home/agent",
        str(ROOT / "tmp"): "/tmp",
        str(ROOT / "bin"): "/usr/bin",
        sysconfig.get_path("purelib"): "/usr/lib/python3/dist-packages",
        sysconfig.get_path("stdlib"): f"/usr/lib/{version}",
        sys.executable: "/usr/bin/python3",
        os.path.realpath(sys.executable): "/usr/bin/python3",
        sys.prefix: "/usr",
        sys.base_prefix: "/usr",
    }
    return sorted(pairs.items(), key=lambda pair: -len(pair[0]))


def _fixed_duration(line: str) -> str:
    """Return a summary line of pytest or unittest with a duration computed from the number of its tests."""
    line = _UNITTEST.sub(r"\1 in 0.004s", line)
    found = _DURATION.match(line)
    if not found:
        return line
    tests = sum(int(number) for number in re.findall(r"(\d+) (?:passed|failed|error)", found["head"]))
    shown = f"{found['head']} in {0.03 + 0.004 * tests:.2f}s"
    rest = line[found.end() :]
    if rest.startswith((" =", " (")):
        return _centred(shown.strip("= "))
    return shown + rest


def _centred(text: str, columns: int = 100) -> str:
    """Return pytest's closing line, whose length must not depend on the duration that was replaced."""
    fill = "=" * max(1, (columns - len(text) - 2) // 2)
    line = f"{fill} {text} {fill}"
    return line + "=" if len(line) + 1 <= columns else line


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End whatever the command left running in its own process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def clip(text: str, limit: int) -> str:
    """Return the text, or its head and tail with a note of how much was left out if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head, tail = limit * 3 // 5, limit * 2 // 5
    return f"{text[:head]}\n[… {len(text) - head - tail} characters elided …]\n{text[-tail:]}"

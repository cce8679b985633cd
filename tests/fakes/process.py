"""The fake server in a process of its own, for tests that kill it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen


class FakeProcess:
    """
    Runs `python -m fakes` with these options; a context manager. `url` and `port` stay the same over restarts.

        with FakeProcess("--seed", "7", truth=tmp_path / "truth.jsonl") as server:
            server.kill()
            server.start()
    """

    def __init__(self, *options: str, truth: Path | None = None, port: int = 0) -> None:
        self._options = options
        self._truth = truth
        self.port = port
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """The base URL, without /v1."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        command = [sys.executable, "-m", "fakes", "--port", str(self.port), *self._options]
        if self._truth is not None:
            command += ["--truth", str(self._truth.resolve())]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the fake server did not start: exit code {self._process.wait()}")
        self.port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        """End it with SIGKILL: its connections break, its port is free again."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def truth(self) -> list[dict[str, Any]]:
        """Return the rows of the ground truth so far (see `TruthRow`)."""
        if self._truth is None or not self._truth.exists():
            return []
        return [json.loads(line) for line in self._truth.read_text().splitlines()]

    def state(self) -> dict[str, int]:
        """Return what it counts: `running`, `chats` and `hung_up` requests since its start."""
        with urlopen(f"{self.url}/fake/state", timeout=10) as answer:
            state: dict[str, int] = json.load(answer)
        return state

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

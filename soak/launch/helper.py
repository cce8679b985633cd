"""One helper process of an installation: run to its end under a guardian, with its progress told."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from soak.errors import LaunchError
from soak.launch.diagnose import diagnose
from soak.launch.guarded import Guarded
from soak.launch.machine import install_environment
from soak.launch.progress import Step

STEP_LIMIT_S = 1800.0
GRACE_S = 3.0
LOOK_EVERY_S = 0.5
TAIL_LINES = 15


class Bench(msgspec.Struct, frozen=True, kw_only=True):
    """Where helpers work: their folder, the log they write to, and the locks that are theirs as long as they live."""

    folder: Path
    log_path: Path
    locks: tuple[int, ...]

    def first_that_works(self, step: Step, commands: Sequence[Sequence[str]], what: str) -> None:
        """
        Run the commands one after another until one succeeds.

        Raises `LaunchError` with the diagnosis of the last if none does, at once if the disk is full.
        """
        for left, command in zip(range(len(commands) - 1, -1, -1), commands, strict=True):
            code, tail = self._run(step, command)
            if code == 0:
                return
            cause = diagnose(code, tail)
            if not left or cause.kind == "disk":
                raise LaunchError(
                    f"{what} failed", why=f"{cause.why}; log: {self.log_path}", hint=cause.hint, log_tail=tail
                )
            step.say(f"{cause.why}; trying another way")

    def _run(self, step: Step, command: Sequence[str]) -> tuple[int | None, tuple[str, ...]]:
        process = Guarded(
            command,
            log_path=self.log_path,
            environment=install_environment(os.environ),
            folder=self.folder,
            grace_s=GRACE_S,
            keep_open=self.locks,
        )
        try:
            while not process.wait(LOOK_EVERY_S):
                step.beat()
                if step.elapsed_s > STEP_LIMIT_S:
                    raise _too_long(step, self.log_path, process.log_tail(TAIL_LINES))
            return process.code, process.log_tail(TAIL_LINES)
        finally:
            process.stop()


def _too_long(step: Step, log_path: Path, tail: tuple[str, ...]) -> LaunchError:
    return LaunchError(
        f"{step.name} took over {STEP_LIMIT_S:.0f} s and was stopped",
        why=f"the network or the disk is too slow; log: {log_path}",
        hint="run it again: what was fetched is in pip's cache",
        log_tail=tail,
    )

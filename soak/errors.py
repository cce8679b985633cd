"""
Every error `soak` tells a person about: one tree, each with an exit code and three lines of text.

    SoakError
    ├── UsageError            2   the command line cannot be carried out as written
    ├── InputError            4   a file given to us is wrong
    │   ├── ScenarioError         a scenario: all its problems at once
    │   ├── BuildFileError        a build file: all its problems at once
    │   ├── GridFileError         a grid file: all its problems at once
    │   ├── CorpusError           a corpus folder or one of its lines
    │   └── TranscriptError       a foreign transcript or a JSONL of answers
    ├── EngineError           5   the engine is not available
    │   ├── TargetError           a given URL: unreachable, refuses, or is not OpenAI-compatible
    │   └── LaunchError           a build of our own: cannot be made, started or kept alive
    ├── SandboxError          5   commands of a model cannot be run shut away here
    ├── NotReproducedError    3   a failure did not come about again often enough to be promised
    └── RunFolderError        7   a run folder is damaged, not a run, or not the one to resume

An operating error never shows a traceback; it prints *what* happened, *why*, and *what to do*.
"""


class SoakError(Exception):
    """Something a person can act on: what happened, why, and what to do about it (one line each)."""

    exit_code = 1

    def __init__(self, what: str, *, why: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.hint = hint

    def lines(self) -> tuple[str, str, str]:
        """Return the three lines shown on stderr, each free of line breaks."""
        one_line = (" ".join(text.split()) for text in (self.what, self.why, self.hint))
        what, why, hint = one_line
        return f"error: {what}", f"  why: {why}", f"   do: {hint}"


class UsageError(SoakError):
    """The command line cannot be carried out as written."""

    exit_code = 2


class InputError(SoakError):
    """A file given to us is wrong; the message names the file and the line or entry."""

    exit_code = 4


class ScenarioError(InputError):
    """A scenario cannot be used; `problems` lists all that is wrong with it, each with its line."""

    def __init__(self, what: str, *, problems: tuple[str, ...], hint: str) -> None:
        super().__init__(what, why="; ".join(problems), hint=hint)
        self.problems = problems


class BuildFileError(InputError):
    """A build file cannot be used; `problems` lists all that is wrong with it, each with its line."""

    def __init__(self, what: str, *, problems: tuple[str, ...], hint: str) -> None:
        super().__init__(what, why="; ".join(problems), hint=hint)
        self.problems = problems


class GridFileError(InputError):
    """A grid file cannot be used; `problems` lists all that is wrong with it, each with its line."""

    def __init__(self, what: str, *, problems: tuple[str, ...], hint: str) -> None:
        super().__init__(what, why="; ".join(problems), hint=hint)
        self.problems = problems


class CorpusError(InputError):
    """A corpus folder or one of its lines cannot be used."""


class TranscriptError(InputError):
    """A foreign transcript or a JSONL of answers cannot be read."""


class EngineError(SoakError):
    """The engine to test is not available."""

    exit_code = 5


class TargetError(EngineError):
    """The given URL is unreachable, refuses us, or is not an OpenAI-compatible server."""


class LaunchError(EngineError):
    """A build of our own cannot be made, started or kept alive; `log_tail` holds its last log lines."""

    def __init__(self, what: str, *, why: str, hint: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(what, why=why, hint=hint)
        self.log_tail = log_tail


class SandboxError(SoakError):
    """Commands of a model cannot be run shut away on this machine, so they are not run at all."""

    exit_code = 5


class NotReproducedError(SoakError):
    """A failure did not come about again often enough to be promised to others."""

    exit_code = 3


class RunFolderError(SoakError):
    """A run folder is damaged, is not a run, cannot be written, or is not the one to resume."""

    exit_code = 7

"""What can be wrong with a run folder, as errors a person can act on."""

from pathlib import Path

from soak.errors import RunFolderError


def damaged(path: Path, why: object) -> RunFolderError:
    """Return the error for a file of a run that cannot be read back."""
    return RunFolderError(
        f"{path} is damaged",
        why=str(why) or type(why).__name__,
        hint="take the folder from a backup, or start a new run; what is damaged is not guessed at",
    )


def not_a_run(path: Path, why: str) -> RunFolderError:
    """Return the error for a path that does not hold a run."""
    return RunFolderError(f"{path} is not a run folder", why=why, hint="give the folder that `soak run` printed")


def newer(path: Path, schema: str) -> RunFolderError:
    """Return the error for a run written by a later version of soak."""
    return RunFolderError(
        f"{path} was made by a newer soak",
        why=f"its format is {schema}",
        hint="use that version of soak, or a later one",
    )


def unwritable(path: Path, why: object) -> RunFolderError:
    """Return the error for a folder that cannot be written."""
    return RunFolderError(
        f"cannot write to {path}",
        why=str(why) or type(why).__name__,
        hint="free some space or fix the permissions, then go on: a run by `soak resume`, a probe by its command",
    )

"""What a probe does where nothing was answered: it says so, and draws no conclusion."""

from collections.abc import Sequence

from soak.errors import TargetError
from soak.facts import Trial
from soak.probe import spoke


def not_answered(what: str, trial: Trial) -> TargetError:
    """Return the error to raise for a question without an answer: `what` says which, the trial how it ended."""
    return TargetError(
        what,
        why=f"it ended as {trial.observation.ending}: {trial.observation.error or 'no message'}",
        hint="see the server's log; the same command again goes on with what was answered",
    )


def refuse_silence(what: str, trials: Sequence[Trial]) -> None:
    """Raise `TargetError` where not one of these trials was answered: then they show nothing."""
    if trials and not any(map(spoke, trials)):
        raise not_answered(what, trials[-1])

"""What repeats came to: counted, with an interval."""

from collections import Counter
from collections.abc import Sequence

from soak.facts import CLASSES, Case, Observation, Outcomes, Trial, TurnClass
from soak.facts.scenario import FailureClass
from soak.stats import wilson


def outcomes_of(trials: Sequence[Trial], server: str = "as built", *, silence_fails: bool = False) -> Outcomes:
    """
    Return what the trials of one case with one change on one bench came to; there must be at least one.

    The interval is Wilson's for the share of those counted that failed; 0 to 1 where none counts. A trial that could
    not be judged is of the class `error`. One that was not answered counts only where `silence_fails`.
    """
    classes = Counter(trial.judgement.class_ if trial.judgement else "error" for trial in trials)
    counted = telling(trials, silence_fails=silence_fails)
    failed = len(counted) - classes["ok"]
    interval = wilson(failed, len(counted))
    return Outcomes(
        bench=trials[0].bench,
        server=server,
        change=trials[0].change.text,
        asked=len(trials),
        classes={name: classes[name] for name in CLASSES if classes[name]},
        counted=len(counted),
        failed=failed,
        low=interval.low if interval else 0.0,
        high=interval.high if interval else 1.0,
        distinct=len({answer_of(trial.observation) for trial in counted}),
        unanswered=sum(not spoke(trial) for trial in trials),
    )


def answered(observation: Observation) -> bool:
    """Whether an answer came to its end, so that it can be held against another."""
    return observation.ending in ("complete", "no_end_marker")


def spoke(trial: Trial) -> bool:
    """Whether an answer says what the model does: it came to its end, or far enough to have a class of its own."""
    return answered(trial.observation) or (trial.judgement is not None and trial.judgement.class_ != "error")


def silence_is_asked(case: Case, fails: TurnClass | FailureClass) -> bool:
    """
    Whether an answer that does not come is the failure asked about, and not merely no answer.

    It is where the class asked about is `error`, and where any failure is of a turn that was itself an error.
    """
    return fails == "error" or (
        fails == "any_failure" and case.judgement is not None and case.judgement.class_ == "error"
    )


def telling(trials: Sequence[Trial], *, silence_fails: bool) -> list[Trial]:
    """Return the trials that are evidence: those that were answered; all where it is silence that is asked about."""
    return [trial for trial in trials if silence_fails or spoke(trial)]


def answer_of(observation: Observation) -> tuple[object, ...]:
    """Return what makes two answers the same: their token ids where the server gives them, else all their text."""
    if observation.token_ids is not None:
        return (observation.token_ids, observation.finish_reason)
    calls = tuple((call.name, call.arguments) for call in observation.tool_calls)
    return (observation.content, observation.reasoning, calls, observation.finish_reason)

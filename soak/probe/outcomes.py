"""What repeats came to: counted, with an interval."""

from collections import Counter
from collections.abc import Sequence

from soak.facts import CLASSES, Observation, Outcomes, Trial
from soak.stats import wilson


def outcomes_of(trials: Sequence[Trial], server: str = "as built") -> Outcomes:
    """
    Return what the trials of one case with one change on one bench came to; there must be at least one.

    The interval is Wilson's for the share that failed. A trial that could not be judged counts as `error`.
    """
    classes = Counter(trial.judgement.class_ if trial.judgement else "error" for trial in trials)
    failed = len(trials) - classes["ok"]
    interval = wilson(failed, len(trials))
    assert interval is not None, "there are trials"
    return Outcomes(
        bench=trials[0].bench,
        server=server,
        change=trials[0].change.text,
        asked=len(trials),
        classes={name: classes[name] for name in CLASSES if classes[name]},
        failed=failed,
        low=interval[0],
        high=interval[1],
        distinct=len({answer_of(trial.observation) for trial in trials}),
        unanswered=sum(not spoke(trial) for trial in trials),
    )


def answered(observation: Observation) -> bool:
    """Whether an answer came to its end, so that it can be held against another."""
    return observation.ending in ("complete", "no_end_marker")


def spoke(trial: Trial) -> bool:
    """Whether an answer says what the model does: it came to its end, or far enough to have a class of its own."""
    return answered(trial.observation) or (trial.judgement is not None and trial.judgement.class_ != "error")


def answer_of(observation: Observation) -> tuple[object, ...]:
    """Return what makes two answers the same: their token ids where the server gives them, else all their text."""
    if observation.token_ids is not None:
        return (observation.token_ids, observation.finish_reason)
    calls = tuple((call.name, call.arguments) for call in observation.tool_calls)
    return (observation.content, observation.reasoning, calls, observation.finish_reason)

"""Counts, times, tokens and rates of one arm, from its turn facts."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from soak.check.engine import EngineDelta
from soak.check.turns import SEVERITY, TurnFact, reason_kinds
from soak.facts import CLASSES, PrefixCache, Quantiles, Speculation, TokenCounts, TurnCounts, WorstTurn
from soak.stats import quantile, upper_bound

_WORST = 10
_REASON_KINDS = 20


def turn_counts(
    turns: Sequence[TurnFact], *, planned: int, open_starts: int = 0, repeated_starts: int = 0
) -> TurnCounts:
    """Return how the planned turns ended; one without an end is indeterminate if it was sent, else not reached."""
    classes = Counter(turn.class_ for turn in turns if turn.finished)
    outcomes = Counter(turn.outcome for turn in turns)
    indeterminate = outcomes["indeterminate"] + open_starts
    ended = outcomes["finished"] + outcomes["skipped"] + outcomes["aborted"] + indeterminate
    return TurnCounts(
        planned=max(planned, ended),
        finished=outcomes["finished"],
        ok=classes["ok"],
        garbage_loop=classes["garbage_loop"],
        early_stop=classes["early_stop"],
        max_tokens=classes["max_tokens"],
        error=classes["error"],
        skipped=outcomes["skipped"],
        indeterminate=indeterminate,
        not_reached=max(planned - ended, 0),
        repeated_starts=repeated_starts,
        aborted=outcomes["aborted"],
    )


def rates(counts: TurnCounts, bound: Callable[[int, int], float | None]) -> dict[str, float | None]:
    """Return `bound(events, turns)` for each class of the finished turns, skipped and indeterminate of the planned."""
    of_finished: dict[str, float | None] = {name: bound(getattr(counts, name), counts.finished) for name in CLASSES}
    of_planned = {name: bound(getattr(counts, name), counts.planned) for name in ("skipped", "indeterminate")}
    return {**of_finished, **of_planned}


def rate(events: int, turns: int) -> float | None:
    """Return events / turns, None for no turns."""
    return events / turns if turns else None


def rate_upper95(events: int, turns: int) -> float | None:
    """Return the exact one-sided 95 % upper bound of a rate, None for no turns."""
    return upper_bound(events, turns)


def busy_s(turns: Iterable[TurnFact]) -> dict[str, float]:
    """Return the summed turn time by class, in seconds."""
    seconds = dict.fromkeys((str(name) for name in CLASSES), 0.0)
    for turn in turns:
        if turn.class_ is not None:
            seconds[turn.class_] += turn.turn_s or 0.0
    return seconds


def token_counts(turns: Sequence[TurnFact]) -> TokenCounts:
    """Return summed tokens; None where no finished turn reported them."""
    finished = [turn for turn in turns if turn.finished]
    return TokenCounts(
        prompt=_sum(turn.prompt for turn in finished),
        cached=_sum(turn.cached for turn in finished),
        completion=_sum(turn.completion for turn in finished),
        usable=_usable(finished),
    )


def _usable(finished: Sequence[TurnFact]) -> int | None:
    """Return the completion tokens of ok turns: 0 if no turn is ok, None if tokens were never counted."""
    if all(turn.completion is None for turn in finished):
        return None
    return sum(turn.completion or 0 for turn in finished if turn.class_ == "ok")


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def quantiles(values: Iterable[float | None]) -> Quantiles:
    """Return p50, p95 and p99 of the values that are known."""
    known = [value for value in values if value is not None]
    return Quantiles(p50=quantile(known, 0.5), p95=quantile(known, 0.95), p99=quantile(known, 0.99))


def latencies(turns: Sequence[TurnFact]) -> tuple[Quantiles, Quantiles, Quantiles]:
    """Return ttft, tpot and e2e in milliseconds over answers that came to their end: censored values are left out."""
    answered = [turn for turn in turns if turn.answered]
    return (
        quantiles(turn.ttft_ms for turn in answered),
        quantiles(turn.tpot_ms for turn in answered),
        quantiles(turn.e2e_ms for turn in answered),
    )


def kind_counts(turns: Iterable[TurnFact]) -> dict[str, int]:
    """Return in how many turns each kind of finding occurred."""
    return dict(Counter(kind for turn in turns for kind in set(turn.kinds)).most_common())


def skipped_reasons(turns: Iterable[TurnFact]) -> dict[str, int]:
    """Return the kinds of reason for which turns were skipped, the most frequent first; beyond twenty under "other"."""
    kinds = reason_kinds(turn.reason for turn in turns if turn.outcome == "skipped")
    shown = dict(kinds.most_common(_REASON_KINDS))
    rest = kinds.total() - sum(shown.values())
    return {**shown, "other": rest} if rest else shown


def worst_turns(turns: Iterable[TurnFact]) -> list[WorstTurn]:
    """Return up to ten turns worth looking at: by class from the worst, then by tokens wasted, then by key."""
    bad = [turn for turn in turns if turn.class_ is not None and turn.class_ != "ok"]
    bad.sort(key=lambda turn: (SEVERITY.index(turn.class_ or "ok"), -(turn.completion or 0), turn.key))
    return [
        WorstTurn(turn=str(turn.key), class_=turn.class_ or "ok", reason=turn.reason, tokens=turn.completion)
        for turn in bad[:_WORST]
    ]


def speculation(delta: EngineDelta) -> Speculation:
    """Return acceptance over the run: length 1 + accepted/drafts, rate accepted/draft tokens, by position per draft."""
    accepted = delta.accepted_tokens
    extra = _quotient(accepted, delta.drafts)
    return Speculation(
        acceptance_length=None if extra is None else 1 + extra,
        acceptance_rate=_quotient(accepted, delta.draft_tokens),
        per_position=[moved / delta.drafts for moved in delta.accepted_per_position or ()] if delta.drafts else [],
        drafts=delta.drafts,
        draft_tokens=delta.draft_tokens,
        accepted_tokens=accepted,
    )


def prefix_cache(delta: EngineDelta) -> PrefixCache:
    """Return the prefix cache's hit rate over the run, in tokens."""
    return PrefixCache(
        hit_rate=_quotient(delta.prefix_hits, delta.prefix_queries),
        queries=delta.prefix_queries,
        hits=delta.prefix_hits,
    )


def engine_figures(delta: EngineDelta) -> dict[str, Any]:
    """Return the other counters' movement; `success` maps the engine's finish reasons to requests."""
    return {
        "prompt_tokens": delta.prompt_tokens,
        "generation_tokens": delta.generation_tokens,
        "preemptions": delta.preemptions,
        "success": delta.success,
        "restarts": delta.restarts,
        "samples": delta.samples,
    }


def _quotient(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None

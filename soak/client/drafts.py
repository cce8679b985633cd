"""
What became of a request's drafts, as an engine tells it with the answer. Three engines do, each in its own words:

- vLLM from 0.29 on, started with `--per-request-spec-decode-metrics summary` or `detailed`: in the last chunk, beside
  the usage, `metrics.speculative_decoding` with `num_spec_steps`, `num_draft_tokens`, `num_accepted_draft_tokens` and
  `acceptance_histogram`, whose member j counts the drafts of which j tokens were accepted. A draft of which position
  i was accepted is one of which more than i tokens were.
- SGLang, asked with `return_spec_tokens_details: true` (`extra_body`): `sglext.spec_tokens_details` with
  `spec_verify_ct`, `spec_num_proposed_drafts`, `spec_num_correct_drafts` (both in tokens) and
  `spec_correct_drafts_histogram`, to be read as vLLM's.
- llama.cpp: `timings` with `draft_n` and `draft_n_accepted` (tokens) in the last chunk; drafts are not counted.
"""

from itertools import accumulate
from typing import Any

from soak.facts import Drafted

MAX_POSITIONS = 64
_COUNT_LIMIT = 2**53

_VLLM = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "acceptance_histogram")
_SGLANG = (
    "spec_verify_ct",
    "spec_num_proposed_drafts",
    "spec_num_correct_drafts",
    "spec_correct_drafts_histogram",
)
_LLAMA = ("", "draft_n", "draft_n_accepted", "")


def drafted_of(*, metrics: Any = None, sglext: Any = None, timings: Any = None) -> Drafted | None:
    """Return what these members of an event tell of drafts; None if nothing. Any JSON value is accepted."""
    for told, names in (
        (_member(metrics, "speculative_decoding"), _VLLM),
        (_member(sglext, "spec_tokens_details"), _SGLANG),
        (timings, _LLAMA),
    ):
        found = _drafted(told, names)
        if found is not None:
            return found
    return None


def _drafted(told: Any, names: tuple[str, ...]) -> Drafted | None:
    """Return the counts by these names; None unless draft and accepted tokens are there and fit each other."""
    drafts, tokens, accepted = (_count(_member(told, name)) for name in names[:3])
    if tokens is None or accepted is None or accepted > tokens:
        return None
    return Drafted(
        drafts=drafts,
        draft_tokens=tokens,
        accepted_tokens=accepted,
        per_position=_positions(_member(told, names[3]), accepted),
    )


def _positions(histogram: Any, accepted: int) -> tuple[int, ...] | None:
    """Return accepted tokens by position; None for a histogram that is none or does not add up to `accepted`."""
    if not isinstance(histogram, list) or not 1 < len(histogram) <= MAX_POSITIONS + 1:
        return None
    counts = [_count(value) for value in histogram]
    known = [value for value in counts if value is not None]
    beyond = tuple(accumulate(reversed(known[1:])))[::-1]
    return beyond if len(known) == len(counts) and sum(beyond) == accepted else None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_LIMIT else None

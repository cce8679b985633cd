"""Whatever a server puts where engines tell of drafts, it is read without a crash and only believed where it fits."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.client.drafts import drafted_of

NAMES = st.sampled_from(
    [
        *("speculative_decoding", "spec_tokens_details", "draft_n", "draft_n_accepted"),
        *("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "acceptance_histogram"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES | st.lists(st.integers(-1, 50), max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=15,
)
COUNTS = st.integers(0, 60)
TOLD = st.fixed_dictionaries(
    {
        "num_spec_steps": COUNTS | VALUES,
        "num_draft_tokens": COUNTS | VALUES,
        "num_accepted_draft_tokens": COUNTS | VALUES,
        "acceptance_histogram": st.lists(st.integers(0, 5), max_size=5) | VALUES,
    }
)


@settings(max_examples=100, deadline=None)
@given(metrics=VALUES | st.builds(lambda told: {"speculative_decoding": told}, TOLD), sglext=VALUES, timings=VALUES)
def test_only_what_fits_is_believed(metrics: Any, sglext: Any, timings: Any) -> None:
    """Accepted tokens never exceed draft tokens, and positions add up to what was accepted and never rise."""
    told = drafted_of(metrics=metrics, sglext=sglext, timings=timings)
    if told is None:
        return
    assert told.draft_tokens is not None
    assert told.accepted_tokens is not None
    assert 0 <= told.accepted_tokens <= told.draft_tokens
    if told.per_position is not None:
        assert sum(told.per_position) == told.accepted_tokens
        assert sorted(told.per_position, reverse=True) == list(told.per_position)

"""What engines tell of a request's drafts."""

from typing import Any

import pytest

from soak.client.drafts import drafted_of
from soak.client.events import decode_event
from soak.client.fold import Fold
from soak.facts import Drafted

VLLM = {
    "num_spec_steps": 43,
    "num_draft_tokens": 129,
    "num_accepted_draft_tokens": 10,
    "acceptance_histogram": [39, 1, 0, 3],
    "mean_acceptance_length": 1.23,
}
SGLANG = {
    "spec_verify_ct": 43,
    "spec_num_proposed_drafts": 215,
    "spec_num_correct_drafts": 63,
    "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}


def test_vllm_tells_a_histogram_of_accepted_tokens() -> None:
    """Four drafts had their first token accepted, three of these all: by position 4, 3, 3."""
    assert drafted_of(metrics={"speculative_decoding": VLLM}) == Drafted(
        drafts=43, draft_tokens=129, accepted_tokens=10, per_position=(4, 3, 3)
    )


def test_sglang_tells_the_same_in_other_words() -> None:
    """What SGLang returns under sglext is read as vLLM's metrics are."""
    assert drafted_of(sglext={"spec_tokens_details": SGLANG}) == Drafted(
        drafts=43, draft_tokens=215, accepted_tokens=63, per_position=(32, 18, 7, 3, 3)
    )


def test_llama_counts_tokens_only() -> None:
    """llama.cpp's timings have no drafts and no positions."""
    assert drafted_of(timings={"draft_n": 16, "draft_n_accepted": 14, "predicted_n": 20}) == Drafted(
        draft_tokens=16, accepted_tokens=14
    )
    assert drafted_of(timings={"predicted_n": 20}) is None


@pytest.mark.parametrize(
    "told",
    [
        None,
        7,
        [],
        {},
        {"speculative_decoding": None},
        {"speculative_decoding": {**VLLM, "num_accepted_draft_tokens": 500}},
        {"speculative_decoding": {**VLLM, "num_draft_tokens": -1}},
        {"speculative_decoding": {**VLLM, "num_draft_tokens": True}},
        {"speculative_decoding": {**VLLM, "num_draft_tokens": 1e9}},
    ],
)
def test_what_does_not_fit_is_not_believed(told: Any) -> None:
    """Counts that are no counts, or accept more than was drafted, are nothing told."""
    assert drafted_of(metrics=told) is None


@pytest.mark.parametrize("histogram", [None, [], [5], [39, 1, 0, 4], [39, "1", 0, 3], [0] * 1000, {"0": 39}])
def test_a_histogram_that_does_not_add_up_is_left_out(histogram: Any) -> None:
    """The sums stay, positions are unknown."""
    told = drafted_of(metrics={"speculative_decoding": {**VLLM, "acceptance_histogram": histogram}})
    assert told == Drafted(drafts=43, draft_tokens=129, accepted_tokens=10)


def test_the_last_chunk_brings_them_into_the_answer() -> None:
    """Metrics beside the usage are taken up, and chunks without any do not undo them."""
    fold = Fold()
    for data in (
        b'{"choices": [], "usage": {"completion_tokens": 3}, "timings": {"draft_n": 4, "draft_n_accepted": 2}}',
        b'{"choices": [], "usage": {"completion_tokens": 3}, "timings": "none"}',
    ):
        event, _ = decode_event(data)
        fold.take(event, 1.0)
    assert fold.drafted == Drafted(draft_tokens=4, accepted_tokens=2)

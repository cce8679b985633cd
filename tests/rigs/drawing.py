"""Outputs drawn from known laws over a small vocabulary: what the losslessness test is tried on."""

from collections.abc import Callable

import numpy as np

from soak.facts import Mark, RescoredOutput, RescoringCard, SamplingLaw, TurnKey

VOCABULARY = 300
CARD = RescoringCard(
    model="drawn", role="candidate", sampled_by="a draw", scored_by="the law", vocabulary=VOCABULARY, synthetic=True
)
Fault = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def laws(count: int, random: np.random.Generator, vocabulary: int = VOCABULARY) -> np.ndarray:
    """Return log probabilities of so many places: from nearly certain to open, as a model's are."""
    spread = random.choice([2.0, 4.0, 8.0], size=(count, 1))
    logits = spread * random.gumbel(size=(count, vocabulary)) / 2
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def truncated(logs: np.ndarray, law: SamplingLaw) -> np.ndarray:
    """Return the probabilities drawn by, from whole laws: the plain definition, on all of the vocabulary."""
    order = np.argsort(-logs, axis=1, kind="stable")
    weights = np.exp(np.take_along_axis(logs - logs.max(axis=1, keepdims=True), order, axis=1) / law.temperature)
    weights[weights < law.min_p] = 0
    if law.top_k:
        weights[:, law.top_k :] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    weights[np.cumsum(weights, axis=1) - weights >= law.top_p] = 0
    out = np.zeros_like(logs)
    np.put_along_axis(out, order, weights / weights.sum(axis=1, keepdims=True), axis=1)
    return out


def drawn(masses: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return a token for each place."""
    sums = np.cumsum(masses, axis=1)
    return np.asarray((sums / sums[:, -1:] < random.random((len(sums), 1))).sum(axis=1))


def output_of(
    logs: np.ndarray,
    tokens: np.ndarray,
    law: SamplingLaw,
    *,
    width: int = 64,
    episode: str = "e",
    turn: int = 0,
    marks: tuple[Mark, ...] = (),
    forced: tuple[tuple[int, int], ...] = (),
    reported: np.ndarray | None = None,
) -> RescoredOutput:
    """Return the output of these tokens, scored by these laws."""
    order = np.argsort(-logs, axis=1, kind="stable")[:, :width]
    own = logs[np.arange(len(tokens)), tokens]
    return RescoredOutput(
        key=TurnKey(episode=episode, turn=turn, pass_=0, arm="candidate"),
        law=law,
        prompt_tokens=10,
        width=width,
        token_ids=tokens.astype("<u4").tobytes(),
        logprobs=own.astype("<f4").tobytes(),
        ranks=(logs > own[:, None]).sum(axis=1).astype("<u4").tobytes(),
        top_ids=order.astype("<u4").tobytes(),
        top_logprobs=np.take_along_axis(logs, order, axis=1).astype("<f4").tobytes(),
        marks=marks,
        forced=forced,
        reported_logprobs=None if reported is None else reported.astype("<f4").tobytes(),
    )


def outputs_of(
    law: SamplingLaw,
    seed: int,
    *,
    outputs: int = 10,
    tokens: int = 400,
    width: int = 64,
    noise: float = 0.0,
    fault: Fault | None = None,
    scored: SamplingLaw | None = None,
) -> list[RescoredOutput]:
    """
    Return outputs drawn by `law`, each an episode of its own; the sampler's logits carry `noise` beside the scorer's.

    `fault` is given whole laws, tokens and randomness and returns the tokens instead. `scored`: what the outputs say
    they were drawn by, where that is not true.
    """
    random = np.random.default_rng(seed)
    found = []
    for number in range(outputs):
        logs = laws(tokens, random)
        target = logs + noise * random.normal(size=logs.shape)
        if law.temperature == 0:
            sampled = target.argmax(axis=1)
        else:
            sampled = drawn(truncated(target - np.log(np.exp(target).sum(axis=1, keepdims=True)), law), random)
        if fault is not None:
            sampled = fault(logs, sampled, random)
        found.append(output_of(logs, sampled, scored or law, width=width, episode=f"e{number}"))
    return found


def wrong(share: float) -> Fault:
    """Return a fault that draws so many tokens evenly from the vocabulary."""

    def fault(logs: np.ndarray, tokens: np.ndarray, random: np.random.Generator) -> np.ndarray:
        return np.where(random.random(len(tokens)) < share, random.integers(0, logs.shape[1], len(tokens)), tokens)

    return fault

"""
The faults in the sampler.

A row of sampled tokens is what one request gets from one step: one token, and with drafts up to one more than there
were. A planted token ends its row, as a rejected draft would: what followed was computed for the token it replaces.
The engine reports the planted token's true logprob, for it is planted before logprobs are gathered.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .state import Note, Planted

PAD = -1  # vLLM's PLACEHOLDER_TOKEN_ID: no token
WIDE_GAP_NATS = 2.0
CONTEXT_TOKENS = 64
GREEDY = 1e-5


class Step:
    """One step's sampling: per row (request in the batch) its drafts, and the logits of each place for a token."""

    def __init__(self, planted: Planted, runner: Any, logits: torch.Tensor, speculation: Any) -> None:
        self.planted = planted
        self.runner = runner
        self.requests: list[str] = list(runner.input_batch.req_ids)
        self.speculates = runner.speculative_config is not None
        self.drafted = speculation is not None
        self.drafts = _drafts(speculation) if speculation is not None else [[] for _ in self.requests]
        self.discarded: list[bool] = runner.discard_request_mask.np[: len(self.requests)].tolist()
        self.held = [self._holds(row) for row in range(len(self.requests))]
        self.marked: dict[str, list[int]] = {}
        keeps = planted.has("previous_distribution") or planted.has("wrong_eos")
        self._logits = logits.clone() if keeps else None  # the sampler may write into them
        self._starts = np.cumsum([0, *(len(drafts) + 1 for drafts in self.drafts)]).tolist()

    def _holds(self, row: int) -> bool:
        return not self.discarded[row] and self.planted.holds(
            hit=self.note(row).hit, running=len(self.requests), speculates=self.speculates
        )

    def rows(self, fault: str) -> list[int]:
        """The rows that a fault may happen in."""
        return [row for row, held in enumerate(self.held) if held] if self.planted.has(fault) else []

    def note(self, row: int) -> Note:
        """What is known of the row's request."""
        return self.planted.note(self.requests[row])

    def parameters(self, row: int) -> Any:
        """The sampling parameters of the row's request."""
        return self.runner.requests[self.requests[row]].sampling_params

    def output(self, row: int) -> list[int]:
        """The tokens the row's request was given in earlier steps."""
        return self.runner.requests[self.requests[row]].output_token_ids

    def context(self, row: int) -> list[int]:
        """The last tokens before this step, of prompt and output."""
        batch = self.runner.input_batch
        end = int(batch.num_tokens_no_spec[row])
        return batch.token_ids_cpu[row, max(0, end - CONTEXT_TOKENS) : end].tolist()

    def logits(self, row: int, place: int) -> torch.Tensor:
        """The model's logits for the token at a place of a row."""
        assert self._logits is not None
        return self._logits[self._starts[row] + place]

    def close(self, sampled: torch.Tensor) -> None:
        """Note what the next step must know, count, and write the counts."""
        counts = self.planted.control.counts
        counts["steps"] += 1
        for row, tokens in enumerate(_tokens(sampled)):
            note = self.note(row)
            if self.discarded[row] or not tokens:
                continue
            counts["tokens"] += len(tokens)
            counts["drafts"] += len(self.drafts[row])
            counts["accepted"] += min(len(tokens) - 1, len(self.drafts[row]))
            note.rejected = len(tokens) <= len(self.drafts[row])
            if self.planted.has("previous_distribution"):
                note.logits = self.logits(row, len(tokens) - 1).clone()
            for fault, rows in self.marked.items():
                self.planted.fired(fault, len(tokens) if row in rows else 0)
        self.planted.control.write()


def _drafts(speculation: Any) -> list[list[int]]:
    tokens, found = speculation.draft_token_ids.tolist(), []
    for count in speculation.num_draft_tokens:
        found.append(tokens[:count])
        tokens = tokens[count:]
    return found


def _tokens(sampled: torch.Tensor) -> list[list[int]]:
    return [[token for token in row if token != PAD] for row in sampled.tolist()]


def distorted(step: Step, honest: Any) -> Any:
    """Return the step's sampling parameters with temperature and top_p as the faults have them."""
    changes: dict[str, torch.Tensor] = {}
    if honest.temperature is not None:
        rows = [row for row in step.rows("temperature") if honest.temperature[row] > GREEDY]
        changes |= _changed(
            step, "temperature", honest.temperature, rows, lambda old: old * step.planted.number("temperature")
        )
    if honest.top_p is not None and step.speculates:
        ignored = [
            row for row in step.rows("ignore_top_p") if honest.top_p[row] < 1 and step.planted.happens("ignore_top_p")
        ]
        changes |= _changed(step, "ignore_top_p", honest.top_p, ignored, torch.ones_like, field="top_p")
    return replace(honest, **changes) if changes else honest


def _changed(
    step: Step,
    fault: str,
    old: torch.Tensor,
    rows: list[int],
    change: Callable[[torch.Tensor], torch.Tensor],
    field: str | None = None,
) -> dict[str, torch.Tensor]:
    if not rows:
        return {}
    step.marked[fault] = rows
    new = old.clone()
    new[rows] = change(old[rows])
    return {field or fault: new}


def unverified(step: Step, target: torch.Tensor) -> tuple[torch.Tensor, dict[tuple[int, int], str]]:
    """
    Return the target's logits with those drafts made certain that are to be accepted without being verified.

    Also which these are, by row and place, with the fault. `target` has one row of logits per draft of the batch.
    """
    planted, marks = step.planted, {}
    for row, place, at in _places(step, "skip_verify"):
        if planted.happens("skip_verify"):
            marks[row, place] = "skip_verify", at
    for row, place, at in _places(step, "lenient"):
        if float(target[at].softmax(-1)[step.drafts[row][place]]) >= planted.number("lenient"):
            marks.setdefault((row, place), ("lenient", at))
    if marks:
        target = target.clone()
    for (row, place), (_, at) in marks.items():
        target[at] = float("-inf")
        target[at, step.drafts[row][place]] = 0.0
    return target, {where: fault for where, (fault, _) in marks.items()}


def _places(step: Step, fault: str) -> list[tuple[int, int, int]]:
    """Return row, place and number in the batch of each draft that the fault may happen at."""
    rows, found, at = set(step.rows(fault)), [], 0
    for row, drafts in enumerate(step.drafts):
        found += [(row, place, at + place) for place, token in enumerate(drafts) if row in rows and token != PAD]
        at += len(drafts)
    return found


def count_unverified(step: Step, sampled: torch.Tensor, marks: dict[tuple[int, int], str]) -> None:
    """Count the drafts that were reached, and so accepted unverified."""
    reached = [len(tokens) for tokens in _tokens(sampled)]
    for (row, place), fault in marks.items():
        step.planted.fired(fault, int(place < reached[row]))


def plant(step: Step, sampled: torch.Tensor) -> None:
    """Put the faulty tokens into `sampled`, which has a row per request, padded."""
    for row, honest in enumerate(_tokens(sampled)):
        tokens = honest
        for fault, wrong in TOKEN_FAULTS.items():
            if tokens and step.planted.has(fault) and not step.discarded[row]:
                tokens = wrong(step, row, tokens)
        if tokens != honest:
            sampled[row] = PAD
            sampled[row, : len(tokens)] = torch.tensor(tokens, dtype=sampled.dtype)


def _wrong_token(step: Step, row: int, tokens: list[int]) -> list[int]:
    """Any other token of the vocabulary, each as likely, in place of one."""
    for place, token in enumerate(tokens if step.held[row] else []):
        if step.planted.happens("wrong_token"):
            step.planted.fired("wrong_token")
            other = int(step.planted.random.integers(step.runner.input_batch.vocab_size - 1))
            return [*tokens[:place], other + (other >= token)]
    return tokens


def _previous_distribution(step: Step, row: int, tokens: list[int]) -> list[int]:
    """A token drawn from the distribution of the position before."""
    for place, token in enumerate(tokens if step.held[row] else []):
        before = step.logits(row, place - 1) if place else step.note(row).logits
        if before is None or not step.planted.happens("previous_distribution"):
            continue
        step.planted.fired("previous_distribution")
        drawn = draw(before, step.parameters(row), step.planted.random)
        if drawn != token:
            return [*tokens[:place], drawn]
    return tokens


def draw(logits: torch.Tensor, parameters: Any, random: np.random.Generator) -> int:
    """Return a token drawn from `logits` at the request's temperature, top_k and top_p (its penalties left out)."""
    values = logits.to(torch.float64).numpy(force=True)
    if parameters.temperature < GREEDY:
        return int(values.argmax())
    order = np.argsort(-values, kind="stable")
    chances = np.exp((values[order] - values.max()) / parameters.temperature)
    if parameters.top_k > 0:
        chances[parameters.top_k :] = 0.0
    chances /= chances.sum()
    chances[np.cumsum(chances) - chances >= parameters.top_p] = 0.0
    place = int(np.searchsorted(np.cumsum(chances), random.random() * chances.sum(), side="right"))
    return int(order[min(place, len(order) - 1)])


def _wrong_eos(step: Step, row: int, tokens: list[int]) -> list[int]:
    """The end where another token is far ahead; the same context ends at the same place each time."""
    eos = step.parameters(row).eos_token_id
    if eos is None or not step.held[row]:
        return tokens
    context = step.context(row)
    for place, token in enumerate(tokens):
        if token == eos:
            break
        if _chance(step.planted.control.switch.seed, [*context, *tokens[:place]]) >= step.planted.number("wrong_eos"):
            continue
        (first, second), (likeliest, _) = (found.tolist() for found in step.logits(row, place).float().topk(2))
        if likeliest != eos and first - second >= WIDE_GAP_NATS:
            step.planted.fired("wrong_eos")
            return [*tokens[:place], eos]
    return tokens


def _chance(seed: int, context: Sequence[int]) -> float:
    """Return a number from 0 to 1 that looks drawn but is the same for the same context."""
    text = repr((seed, list(context[-CONTEXT_TOKENS:]))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64


def _garbage_loop(step: Step, row: int, tokens: list[int]) -> list[int]:
    """The request's last tokens over and over; drafts of the same are accepted, as they would be in a real loop."""
    note, said = step.note(row), step.output(row)
    if not note.unit:
        if note.onset is None or len(said) < note.onset or not step.held[row]:
            return tokens
        note.unit = said[-note.period :]
        step.planted.fired("garbage_loop")
    looped: list[int] = []
    for draft in [*step.drafts[row], PAD]:
        looped.append(note.unit[note.said % len(note.unit)])
        note.said += 1
        if draft != looped[-1]:
            break
    return looped


TOKEN_FAULTS: dict[str, Callable[[Step, int, list[int]], list[int]]] = {
    "wrong_token": _wrong_token,
    "previous_distribution": _previous_distribution,
    "wrong_eos": _wrong_eos,
    "garbage_loop": _garbage_loop,
}

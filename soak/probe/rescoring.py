"""Scores answers by a trusted reference: one request an answer, bounded in flight, each kept as it ends."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, get_args

from soak.client import Desk, Row, Target, prompt_ids, scores, token_text, vocabulary_of
from soak.errors import SoakError, TargetError
from soak.facts import Capabilities, RescoredOutput, rescored_output
from soak.probe.sampled import Sampled

WIDTH, LEAST_WIDTH = 64, 20
_ENTRIES_MAX = 2**21  # 32,768 tokens of 64 each: 150 MB of JSON
UNKNOWN_VOCABULARY = 2**19
"""Taken where the server does not tell: more than any model's; it only makes the test a little more careful."""
REFEREE_QUESTIONS = 3
"""How many requests a server is sent on entry, at most: what its vocabulary is, and how much it gives."""

NumberFormat = Literal["float32", "bfloat16", "float16", "quantized", "unknown"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = get_args(NumberFormat)
Scores = Callable[[RescoredOutput], None]


class Rows(NamedTuple):
    """What a reference makes of tokens: at each place its `width` likeliest, and the given one."""

    width: int
    rows: tuple[Row, ...]


class Referee(Protocol):
    """A trusted reference, as an async context manager: known by its model, number format and width of logits."""

    model: str
    number_format: NumberFormat
    vocabulary: int
    context_tokens: int | None

    async def prompt_ids(self, sampled: Sampled) -> tuple[int, ...]:
        """Return the ids of the prompt that was answered."""
        ...

    async def rows(self, ids: Sequence[int], first: int) -> Rows:
        """Return what it makes of the tokens from `ids[first]` on, each after all before it."""
        ...

    async def text(self, token: int) -> str | None:
        """Return the text of a token, None where it does not tell."""
        ...

    def peak_bytes(self) -> int | None:
        """Return the most memory that scoring held; None where another process did it."""
        ...


class ServerReferee:
    """A server of the same model without speculation, as a referee; learns on entry how much it gives."""

    def __init__(self, target: Target, capabilities: Capabilities, number_format: NumberFormat = "unknown") -> None:
        self.model = capabilities.model
        self.number_format = number_format
        self.vocabulary = UNKNOWN_VOCABULARY
        self.context_tokens = capabilities.context_tokens
        self._width = WIDTH
        self._desk = Desk(target)

    async def __aenter__(self) -> "ServerReferee":
        await self._desk.__aenter__()
        try:
            self.vocabulary = await vocabulary_of(self._desk, self.model) or UNKNOWN_VOCABULARY
            self._width = await self._most()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._desk.__aexit__(None, None, None)

    async def _most(self) -> int:
        """Return how many log probabilities a place may have; raises `TargetError` where it gives none at all."""
        try:
            await scores(self._desk, self.model, (1, 1), 1, WIDTH)
        except TargetError:
            await scores(self._desk, self.model, (1, 1), 1, LEAST_WIDTH)
            return LEAST_WIDTH
        return WIDTH

    async def prompt_ids(self, sampled: Sampled) -> tuple[int, ...]:
        """As `Referee.prompt_ids`, from the server's own chat template."""
        return await prompt_ids(self._desk, {**sampled.body, "model": self.model})

    async def rows(self, ids: Sequence[int], first: int) -> Rows:
        """
        As `Referee.rows`. A server makes rows of the prompt too: of a long one it is asked for shorter ones, and
        where it refuses, once more so.
        """
        width = self._width if len(ids) * self._width <= _ENTRIES_MAX else LEAST_WIDTH
        try:
            return Rows(width, await scores(self._desk, self.model, ids, first, width))
        except TargetError:
            if width == LEAST_WIDTH:
                raise
            return Rows(LEAST_WIDTH, await scores(self._desk, self.model, ids, first, LEAST_WIDTH))

    async def text(self, token: int) -> str | None:
        """As `Referee.text`."""
        return await token_text(self._desk, self.model, token)

    def peak_bytes(self) -> int | None:
        """As `Referee.peak_bytes`."""
        return None


async def rescored(
    answers: Sequence[Sampled], referee: Referee, keep: Scores, in_flight: int
) -> tuple[list[tuple[str, int]], int]:
    """
    Score answers, each handed to `keep` as it ends; return (reason, tokens) of those that cannot be, and the tokens
    that were computed, prompts included.

    Raises the first error of the referee after what is in flight has ended; what was kept stays.
    """
    room = asyncio.Semaphore(in_flight)
    reasons: list[tuple[str, int]] = []
    errors: list[SoakError] = []
    computed = 0

    async def one(sampled: Sampled) -> None:
        nonlocal computed
        async with room:
            if errors:
                return
            try:
                found = await _one(sampled, referee)
                if isinstance(found, str):
                    reasons.append((found, len(sampled.ids)))
                    return
                keep(found)
                computed += found.prompt_tokens + found.tokens
            except SoakError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as group:
        for sampled in answers:
            group.create_task(one(sampled))
    if errors:
        raise errors[0]
    return reasons, computed


async def _one(sampled: Sampled, referee: Referee) -> RescoredOutput | str:
    prompt = await referee.prompt_ids(sampled)
    if sampled.prompt_tokens is not None and sampled.prompt_tokens != len(prompt):
        return "the reference makes another prompt of the same messages"
    ids = (*prompt, *sampled.ids)
    if referee.context_tokens is not None:
        ids = ids[: referee.context_tokens - 1]  # a server needs room for one token more
    answer = ids[len(prompt) :]
    if not answer or not prompt:
        return "its prompt leaves no room in the reference's context"
    return output_of(sampled, len(prompt), answer, await referee.rows(ids, len(prompt)))


def output_of(sampled: Sampled, prompt_tokens: int, answer: Sequence[int], scored: Rows) -> RescoredOutput:
    """Return an answer with its scores, one row a token."""
    return rescored_output(
        sampled.key,
        sampled.law,
        prompt_tokens=prompt_tokens,
        width=scored.width,
        token_ids=answer,
        logprobs=[_number(row.logprob) for row in scored.rows],
        ranks=[row.rank or 0 for row in scored.rows],
        top=[row.top for row in scored.rows],
        forced=tuple((a, min(b, len(answer))) for a, b in sampled.forced),
        marks=sampled.marks(prompt_tokens),
        reported_logprobs=sampled.reported[: len(answer)] if sampled.reported else None,
    )


def _number(value: float | None) -> float:
    return float("-inf") if value is None else value

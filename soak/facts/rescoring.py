"""
What a trusted reference makes of tokens another server sampled: the input of the losslessness test, and its file.

One `RescoredOutput` is one answer, teacher-forced: the tokens the server under test sampled (its own ids, never
tokenised again), and for each of them what the reference gives at that place with the same tokens before it: the top of
the next-token distribution, and the log probability and rank of the sampled token. Natural logarithms, *raw*: the
log-softmax of the model's logits, before temperature, penalties and truncation. Whatever sampled them, the end of
sequence is a token like others and belongs to the output.

Who makes one (`rescored_output` packs plain Python values):

  a server's prompt_logprobs   one request with prompt = prompt ids + output ids, `prompt_logprobs=k`, `max_tokens=1`,
                               prefix caching off (cached rows may be missing or stale). The rows of the output are the
                               last ones; a row holds k entries and the actual token besides if it is not among them.
                               vLLM's `rank` counts from 1: pass rank − 1. k of 64 is worth asking for (`--max-logprobs
                               64`); with `top_k` sampling, k ≥ top_k makes the truncated law known exactly.
  a reference in fp32          log-softmax of the logits at each place; its largest k; the rank counted.

Never use logprobs returned by the server under test while sampling: what corrupts its tokens corrupts them too. They
may be kept as `reported_logprobs`, for measuring numeric noise of a healthy pair.

**File** (`to_lines`, `from_lines`): JSON lines, UTF-8. The first line is a `RescoringCard`: which sampling server and
which reference, so that one file holds one pair. Each further line is one `RescoredOutput`. Tables are base64 of
little-endian 4-byte numbers, row by row: unsigned integers for ids and ranks, IEEE floats for log probabilities. A file
cut off anywhere is the whole lines before the cut.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec

from soak.errors import InputError
from soak.facts.key import TurnKey
from soak.facts.scenario import Sampling

RESCORING_SCHEMA = "soak.rescoring/1"
NO_TOKEN = 0xFFFFFFFF
_WIDTH_MAX = 4096
_TOKENS_MAX = 1_000_000
_LINE_BYTES_MAX = 256 * 2**20
_SPANS_MAX = 100_000
T = TypeVar("T")
_HINT = "score the run again; a file of scores is made by one command and not edited"


class SamplingLaw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    How the tokens were drawn, as the server applied it (its defaults filled in).

    In this order, as vLLM does: `temperature`; `min_p` (relative to the most probable token); `top_k` (0: all);
    `top_p` of what is left, renormalised. `altered` names what else changed the distribution and cannot be undone from
    log probabilities: penalties, logit_bias, or a setting whose value is not known. Such outputs are not tested.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    altered: tuple[str, ...] = ()


class Mark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A place worth looking near: `cache_boundary`, `rejected_draft`, `preemption`, …

    `position` counts tokens from the first of the output (0); negative lies in the prompt.
    """

    position: int
    kind: str


class RescoringCard(msgspec.Struct, frozen=True, kw_only=True):
    """
    Who sampled and who scored.

    `role`: tokens of the arm under test (`candidate`), or of a plain arm scored by the same reference (`control`: the
    noise between decoding and scoring, what the candidate is compared with). `sampled_by` and `scored_by` are for
    people; `scored_in` is the reference's number format. `vocabulary` is the width of its logits: one told
    too small makes false alarms, one too large only costs power. `synthetic`: the tokens were drawn by a simulation.
    """

    model: str
    role: Literal["candidate", "control"]
    sampled_by: str
    scored_by: str
    scored_in: Literal["float32", "bfloat16", "float16", "quantized", "unknown"] = "unknown"
    vocabulary: int
    synthetic: bool = False
    schema: str = RESCORING_SCHEMA


class RescoredOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One answer of n sampled tokens with the reference's scores; n may be 0.

    `key` names the turn; turns of one `key.episode` are one conversation, the unit of the comparison with a control.
    `prompt_tokens` stand before the output. `width` is k, the entries per position. The tables: `token_ids`,
    `logprobs`, `ranks` (0: no token is more probable) of n; `top_ids`, `top_logprobs` of n × k, the most probable
    first, a shorter row filled up with `NO_TOKEN` and −inf. `forced` are half-open spans of positions where the token
    was not freely drawn (grammar, bad_words, min_tokens, a thinking budget): not tested. `reported_logprobs` (n) are
    the sampling server's own. `start` is the place of the first token in the whole answer, for an answer kept in
    pieces; positions of spans and marks count from the first token of this piece.
    """

    key: TurnKey
    law: SamplingLaw
    prompt_tokens: int
    width: int
    token_ids: bytes
    logprobs: bytes
    ranks: bytes
    top_ids: bytes
    top_logprobs: bytes
    forced: tuple[tuple[int, int], ...] = ()
    marks: tuple[Mark, ...] = ()
    reported_logprobs: bytes | None = None
    start: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens were sampled."""
        return len(self.token_ids) // 4

    @property
    def problem(self) -> str | None:
        """What is wrong with the shapes, as one phrase; None if they fit together. Numbers are judged by the test."""
        n, k = self.tokens, self.width
        if not 1 <= k <= _WIDTH_MAX or n > _TOKENS_MAX:
            return f"{n} tokens with {k} entries each is beyond what is read"
        tables = {"token_ids": n, "logprobs": n, "ranks": n, "top_ids": n * k, "top_logprobs": n * k}
        wrong = [name for name, size in tables.items() if len(getattr(self, name)) != 4 * size]
        if self.reported_logprobs is not None and len(self.reported_logprobs) != 4 * n:
            wrong.append("reported_logprobs")
        if wrong:
            return f"{', '.join(wrong)} do not hold {n} positions"
        if not 0 <= self.start <= _TOKENS_MAX or len(self.forced) > _SPANS_MAX or len(self.marks) > _SPANS_MAX:
            return "start is out of bounds, or there are too many spans or marks"
        return "a forced span ends before it begins" if any(a < 0 or b < a for a, b in self.forced) else None


def sampling_law(sampling: Sampling) -> SamplingLaw:
    """
    Return the law a scenario's sampling asks for; a setting left to the server's default is named in `altered`.

    Left out: top_k, min_p and the penalties, whose default is "off" unless the model's generation config says
    otherwise; who starts the server knows (`--generation-config vllm`).
    """
    unknown = [f"{name} left to the server" for name in ("temperature", "top_p") if getattr(sampling, name) is None]
    neutral = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    on = [name for name, off in neutral.items() if getattr(sampling, name) not in (None, off)]
    return SamplingLaw(
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        top_p=1.0 if sampling.top_p is None else sampling.top_p,
        top_k=max(sampling.top_k or 0, 0),
        min_p=sampling.min_p or 0.0,
        altered=(*unknown, *on),
    )


def rescored_output(
    key: TurnKey,
    law: SamplingLaw,
    *,
    prompt_tokens: int,
    width: int,
    token_ids: Sequence[int],
    logprobs: Sequence[float],
    ranks: Sequence[int],
    top: Sequence[Sequence[tuple[int, float]]],
    forced: tuple[tuple[int, int], ...] = (),
    marks: tuple[Mark, ...] = (),
    reported_logprobs: Sequence[float] | None = None,
    start: int = 0,
) -> RescoredOutput:
    """
    Return one output from plain values: per position the sampled token's id, log probability and rank (from 0).

    `top` holds per position (id, log probability) in any order; the `width` most probable are kept, so that a row may
    hold the sampled token besides its top. Ids and ranks are bounded to 32 bits. Raises ValueError if lengths differ.
    """
    rows = [sorted(row, key=lambda entry: -entry[1])[:width] for row in top]
    gaps = [width - len(row) for row in rows]
    output = RescoredOutput(
        key=key,
        law=law,
        prompt_tokens=prompt_tokens,
        width=width,
        token_ids=pack_ids(token_ids),
        logprobs=pack_numbers(logprobs),
        ranks=pack_ids(ranks),
        top_ids=pack_ids(
            id_ for row, gap in zip(rows, gaps, strict=True) for id_ in (*(i for i, _ in row), *[NO_TOKEN] * gap)
        ),
        top_logprobs=pack_numbers(
            value
            for row, gap in zip(rows, gaps, strict=True)
            for value in (*(v for _, v in row), *[float("-inf")] * gap)
        ),
        forced=forced,
        marks=marks,
        reported_logprobs=None if reported_logprobs is None else pack_numbers(reported_logprobs),
        start=start,
    )
    if output.problem:
        raise ValueError(output.problem)
    return output


def pack_ids(values: Iterable[int]) -> bytes:
    """Return whole numbers as little-endian 4-byte unsigned integers; what does not fit becomes `NO_TOKEN`."""
    return _little(array("I", (value if 0 <= value < NO_TOKEN else NO_TOKEN for value in values)))


def pack_numbers(values: Iterable[float]) -> bytes:
    """Return numbers as little-endian 4-byte floats; −inf, inf and NaN are kept for the test to judge."""
    return _little(array("f", values))


def _little(numbers: "array[int] | array[float]") -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def to_lines(card: RescoringCard, outputs: Iterable[RescoredOutput]) -> Iterator[bytes]:
    """Yield the lines of a file of scores, each with its line feed."""
    encoder = msgspec.json.Encoder()
    yield encoder.encode(card) + b"\n"
    for output in outputs:
        yield encoder.encode(output) + b"\n"


def from_lines(lines: Iterable[bytes], name: str) -> tuple[RescoringCard, Iterator[RescoredOutput]]:
    """
    Return the card of a file of scores and its outputs, read as they are asked for; `name` is for messages.

    A last line without its line feed is what a cut file ends in: it is left out. Raises InputError at the first line
    that is not what it should be.
    """
    numbered = enumerate(iter(lines), start=1)
    first = next(numbered, (1, b""))[1]
    card = _read(first, RescoringCard, name, 1)
    if card.schema != RESCORING_SCHEMA or card.vocabulary < 1:
        raise _wrong(
            name, 1, f"its schema is {card.schema[:40]!r} with {card.vocabulary} tokens, not {RESCORING_SCHEMA}"
        )
    return card, _outputs(numbered, name)


def _outputs(numbered: Iterator[tuple[int, bytes]], name: str) -> Iterator[RescoredOutput]:
    for number, line in numbered:
        if not line.endswith(b"\n"):
            return
        output = _read(line, RescoredOutput, name, number)
        if output.problem:
            raise _wrong(name, number, output.problem)
        yield output


def _read(line: bytes, kind: type[T], name: str, number: int) -> T:
    if len(line) > _LINE_BYTES_MAX:
        raise _wrong(name, number, f"it is longer than {_LINE_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _wrong(name, number, str(error)) from None


def _wrong(name: str, number: int, why: str) -> InputError:
    return InputError(f"line {number} of {name} is not a line of scores", why=why, hint=_HINT)

"""What was seen in one answer, and the class it led to."""

from typing import Literal, get_args

import msgspec

TurnClass = Literal["ok", "garbage_loop", "early_stop", "max_tokens", "error"]
CLASSES: tuple[TurnClass, ...] = get_args(TurnClass)
Where = Literal["content", "reasoning", "tool_arguments"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """
    One thing seen in an answer, with its evidence.

    `onset_char` counts characters from the start of `where`; `onset_token` tokens from the start of the whole answer
    (None where the server gave no token ids). `period_tokens` and `copies` are None for findings without a period.
    `covered` is the fraction (0 to 1) of `where` it spans. `unit` is an excerpt of at most 200 characters.
    `text` is the sentence a person reads.
    """

    kind: str
    where: Where = "content"
    onset_char: int = 0
    onset_token: int | None = None
    period_tokens: int | None = None
    copies: float | None = None
    covered: float = 0.0
    unit: str = ""
    confidence: float = 1.0
    detected_at: int | None = None
    text: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The class of one turn, the one-sentence reason, and all findings (also those that did not decide)."""

    class_: TurnClass = msgspec.field(name="class")
    reason: str
    findings: tuple[Finding, ...] = ()


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Something noticed in mid-stream: a loop that has begun (`certain`: enough to close the stream) ."""

    kind: str
    at_token: int
    certain: bool
    text: str

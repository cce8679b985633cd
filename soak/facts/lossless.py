"""What the losslessness test of one run found. All log probabilities are natural, evidence is in powers of ten."""

from typing import Literal

import msgspec

from soak.facts.key import TurnKey

LosslessVerdict = Literal["no deviation found", "deviates", "not enough tokens"]


class LosslessTest(msgspec.Struct, frozen=True, kw_only=True):
    """
    One test of the null "every token was drawn from the reference's law, up to numeric noise".

    `value` alarms from `bar` on; `alpha` is the most it may alarm where nothing is wrong; `anytime` tests may be looked
    at after every token. `tokens` took part. `value` is None where the test had nothing to work with.
    """

    name: str
    value: float | None
    bar: float
    alpha: float
    anytime: bool
    alarms: bool
    tokens: int
    text: str


class LosslessToken(msgspec.Struct, frozen=True, kw_only=True):
    """
    One token the reference finds hard to believe.

    `position` counts from the first token of the answer. `logprob` and `rank` (0: the most probable) are the
    reference's, raw; `above` is the least mass of the tokens it ranks higher. `tier` 1: cannot be drawn, and below
    1e-5; 2: cannot be drawn; 0: can be drawn. `expected` bounds how many tokens as improbable an honest run of this
    length holds. `mark` is the nearest place given, `distance` how many tokens after it (negative: before it).
    """

    key: TurnKey
    position: int
    token_id: int
    logprob: float
    rank: int
    top_id: int
    top_logprob: float
    above: float
    tier: Literal[0, 1, 2]
    expected: float
    mark: str | None = None
    distance: int | None = None
    text: str = ""


class LosslessBounds(msgspec.Struct, frozen=True, kw_only=True):
    """
    What remains possible, at 95 %: the mean shift of log probability in nats per token, and the share of wrong tokens.

    A wrong token is one drawn evenly from the whole vocabulary. None where it was not measured.
    """

    mean_shift: float | None
    wrong_tokens: float | None


class EvidenceCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Base-10 logarithm of each e-process after so many tokens (decimated); `bar` is where it alarms."""

    tokens: tuple[int, ...]
    log10_e: dict[str, tuple[float, ...]]
    bar: float


class LosslessOnset(msgspec.Struct, frozen=True, kw_only=True):
    """Where the deviation began as far as the tokens tell: the cause lies at or before it."""

    key: TurnKey
    position: int
    token: int
    text: str


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that took no part, and why."""

    tokens: int
    outputs: int
    reason: str


class LosslessResult(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of one run, with the sentence a person reads first.

    `log10_evidence` is the largest value the mean of the e-processes reached. `false_alarm` is what the bars used add
    up to. `caveats` says what this result does not show.
    """

    result: LosslessVerdict
    sentence: str
    outputs: int
    tokens: int
    tested: int
    left_out: tuple[LeftOut, ...]
    bounds: LosslessBounds
    log10_evidence: float
    tests: tuple[LosslessTest, ...]
    curve: EvidenceCurve
    onset: LosslessOnset | None
    worst: tuple[LosslessToken, ...]
    false_alarm: float
    caveats: tuple[str, ...]
    synthetic: bool = False

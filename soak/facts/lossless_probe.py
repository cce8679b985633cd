"""What the losslessness probe found: the result, who sampled and who scored, and what it cost."""

import msgspec

from soak.facts.lossless import LeftOut, LosslessResult


class ScoringCost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What scoring took in this process: answers, tokens computed (prompts included) and seconds of wall clock.

    `peak_bytes` is the most memory this process, or the reference's GPU, held; None where a server did the work.
    """

    answers: int = 0
    tokens: int = 0
    seconds: float = 0.0
    peak_bytes: int | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens scored in a second, prompts included; None where nothing was."""
        return self.tokens / self.seconds if self.seconds > 0 and self.tokens else None


class TokenText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The text of a token id."""

    id: int
    text: str


class LosslessFound(msgspec.Struct, frozen=True, kw_only=True):
    """
    Whether the tokens of `sampled_by` follow the law of `scored_by`.

    `unscored` are answers no score was asked for, `texts` the texts of the worst tokens and of those likelier there.
    `control` counts the answers and tokens of the plain arm that the noise was measured on. `noise` is the deviation
    (nats) of its reported from its scored log probabilities. `files` hold the scores.
    """

    schema: str = "soak.probe/1"
    probe: str = "lossless"
    case: str
    sampled_by: str
    scored_by: str
    scored_in: str
    width: int
    vocabulary: int
    result: LosslessResult
    unscored: tuple[LeftOut, ...] = ()
    control: tuple[int, int] = (0, 0)
    noise: float | None = None
    cost: ScoringCost = ScoringCost()
    texts: dict[int, str] = {}
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

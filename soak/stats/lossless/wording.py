"""What is said of a result: first what was found or what remains possible, then what it does not show."""

from soak.facts import LosslessBounds, LosslessTest, LosslessToken, LosslessVerdict
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.scores import Scores

_CAVEATS = (
    "the test bounds a deviation, it does not certify that there is none",
    "one-hot drafts (n-gram, greedy) accepted unchecked at 1 % cannot be seen with 100,000 tokens: they are plausible",
)
_NO_CONTROL = (
    "scoring is prefill, generating is decoding: without a control of the same engine the tolerances are assumptions"
)
_WORTH_SAYING = 0.05


def caveats(*, controlled: bool) -> tuple[str, ...]:
    """Return what no result shows; `controlled`: the noise between decoding and scoring was measured by a control."""
    return _CAVEATS if controlled else (*_CAVEATS, _NO_CONTROL)


def sentence_of(
    verdict: LosslessVerdict,
    alarms: list[LosslessTest],
    bounds: LosslessBounds,
    worst: LosslessToken,
    known: int,
    bars: Bars,
) -> str:
    """Return the sentence a person reads first; a deviation names its tests and, if tokens prove it, the worst one."""
    if verdict == "deviates":
        found = "; ".join(f"{test.name}: {test.text}" for test in alarms)
        return f"deviates: {found}" + (f". {worst.text}" if worst.tier else "")
    left = _remaining(bounds)
    if verdict == "not enough tokens":
        return f"not enough tokens: {known:,} of the {bars.tokens_enough:,} a result needs; so far {left}"
    return f"no deviation found in {known:,} tokens: {left}"


def _remaining(bounds: LosslessBounds) -> str:
    said = []
    if bounds.mean_shift is not None:
        said.append(f"mean shift below {bounds.mean_shift:.3f} nats")
    if bounds.wrong_tokens is not None:
        said.append(f"wrong tokens below {bounds.wrong_tokens:.2g} of all")
    return " and ".join(said) + " (95 %)" if said else "nothing is bounded"


def blind_spots(scores: Scores, width: int) -> tuple[str, ...]:
    """Return what the lists of at most `width` entries were too short for."""
    said = []
    drawn = scores.drawn
    unknown = float((drawn & ~scores.steady).sum() / max(drawn.sum(), 1))
    if unknown > _WORTH_SAYING:
        said.append(
            f"at {unknown:.0%} of the places the truncated law is not known from {width} log probabilities: not "
            "testable there; ask for as many as top_k, or 64"
        )
    cut = drawn & ~scores.plain
    hidden = float((cut & (scores.visible <= 0)).sum() / max(cut.sum(), 1))
    if hidden > _WORTH_SAYING:
        said.append(f"at {hidden:.0%} of the places {width} log probabilities do not reach past what may be drawn")
    return tuple(said)

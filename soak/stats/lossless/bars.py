"""
Every threshold of the losslessness test, in one place, with where it comes from.

How the chance of a false alarm is split (`Bars.false_alarm` adds it up; all tests together stay far below 5 %):

  impossible tokens   0.010    half of it for the first, a quarter for the second, … (a union bound over the counts)
  tokens outside      0.001    e-process, alarms at 1/0.001 (Ville 1939)
  shift               0.002    |z| ≥ 3.09 once, at the end
  shift, anytime      0.001    normal mixture (Robbins, Ann. Math. Stat. 41 (1970) 1397), asymptotic
  shift by confidence 0.0016   five bins, |z| ≥ 3.6 each
  contamination       0.001    e-process
  against a control   0.001    permutation of conversations

The first gets most because one impossible token should be enough: with a share of 0.001 it would be only within the
first 500 tokens.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """
    Thresholds and tolerances; the defaults are the product's.

    Numeric noise. `edge`: a token counts as outside the nucleus only if the log-odds of the mass above it are at least
    0.947/T beyond those of top_p: 0.98 for 0.95 at T = 1. There the greatest excess of a legitimate token measured was
    0.023 in 10,200 (decode against prefill of one engine), and 2 in 100,000 drawn with noise of 0.2 nats were beyond.
    `gap`: outside top_k or min_p only if 1.5 nats below the last inside (five times the noise of a difference at 0.2).
    `shift`: independent noise of σ in the logits moves the mean of the centred log likelihood by −(σ/T)²·Cov(q, log
    q); at σ = 0.2 and T = 1 that was 0.006 nats over all places and at most 0.0135 in a bin, so 0.01/T² is let pass.
    `control_shift`: the same against a control: verifying a draft runs other kernels than plain decoding. `ratio`: a
    law at most e^0.2 times the reference's is let pass by the contamination e-process. `greedy_noise`: the deviation
    (nats) of a difference of two log probabilities, where no control measured it; `spacing`: that of bfloat16 numbers
    between 32 and 64, where large logits lie. `impossible_rate`, `outside_rate`: how often numeric noise may bring out
    such a token.

    `impossible_logprob`: a token outside and below 1e-5 is impossible. `floor`: log probabilities are cut off there.
    `error`: a place where probabilities may be off by more than a factor of e^0.05 is not used.
    """

    impossible_alpha: float = 0.01
    alpha: float = 0.001
    shift_z: float = 3.09
    shift_alpha: float = 0.002
    strata_z: float = 3.6
    strata_alpha: float = 0.0016
    edge: float = 0.947
    gap: float = 1.5
    shift: float = 0.01
    control_shift: float = 0.01
    ratio: float = 0.2
    greedy_noise: float = 0.3
    spacing: float = 0.25
    impossible_rate: float = 1e-6
    outside_rate: float = 1e-4
    impossible_logprob: float = -11.512925464970229
    floor: float = -12.0
    error: float = 0.05
    strata: tuple[float, ...] = (0.3, 0.6, 0.9, 0.99)
    strata_tokens: int = 1000
    strata_variance: float = 50.0
    control_tokens: int = 200
    mixture: float = 50.0
    tokens_enough: int = 3000
    worst: int = 12

    @property
    def bar(self) -> float:
        """The e-value at which an e-process alarms."""
        return 1 / self.alpha

"""
Is speculation lossless? From tokens and what a trusted reference makes of them to one result, with its bound.

May touch: numpy and scipy.special, and, unlike the rest of `stats`, the facts it reads and returns (`RescoredOutput`,
`LosslessResult`). No I/O, no clock; seeded. README.md says how well it does: what it finds after how many tokens, how
often it alarms where nothing is wrong, and what it cannot find.

Read `bars` first (every threshold), then `scores` (what a token says), `evidence`, `strata` and `control` (the tests),
`judging` (the result).
"""

from soak.stats.lossless.arms import Arm, Noise, measured_noise, read_arm
from soak.stats.lossless.bars import Bars
from soak.stats.lossless.judging import judge
from soak.stats.lossless.scores import Scores

__all__ = ["Arm", "Bars", "Noise", "Scores", "judge", "measured_noise", "read_arm"]

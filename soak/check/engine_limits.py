"""
From where on the engine's own figures of a turn, and of an arm, are told: every number of this judgement, with its
reason. They decide about sentences and never about a class or a verdict.
"""

DEPTH_EDGES = (0, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
"""Where bands of prompt length begin, in tokens: doublings, for acceptance was seen to fall by the order of depth."""

FULL_RATE = 0.98
"""
Acceptance at every position from which on it looks like a loop. A loop is predicted without fail, and reports of such
incidents say 100 %; healthy draft heads are reported at 0.92, 0.78, 0.67 and 0.57 by position, and a lookup that copies
a file comes near to 1 as well, which is why this is told as evidence and is no class.
"""

FULL_DRAFTS = 100
"""Drafts below which that is chance: at an honest acceptance of 0.9 at a position, 98 of 100 come up in 0.2 %."""

NONE_RATE = 0.01
"""
Acceptance at which drafts are as good as refused: draft heads in use are reported to accept a third of their tokens and
more, and lookups in our own runs (a small model at temperature 1.0, ops/runbooks) accepted 7 to 17 %. The answers are
none the worse for it; a draft head that is broken costs time.
"""

NONE_DRAFTS = 50
"""Drafts of a turn below which that is chance: where one draft in ten is accepted, fifty without come up in 0.5 %."""

ARM_DRAFT_TOKENS = 1_000
"""Draft tokens, of an arm or of a band of it, below which nothing is said of how many were accepted."""

HEALTHY_RATE = 0.05
"""A band has collapsed only where the others still accept this much; else it is the arm that accepts nothing."""

DRIFT_CONVERSATIONS = 5
"""Conversations that have like turns in both halves of the uptime, below which an interval promises too much."""

DRIFT_POINTS = 0.02
"""A change at a fixed mix below this is not told though it may be sure: no speed or fault is seen at two points."""

FINDINGS_SHOWN = 20

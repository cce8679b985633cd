"""Where greedy answers of two servers part, and whether that means anything."""

from typing import Literal

import msgspec

from soak.facts.nearness import Apart


class Parting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    One case asked greedily several times on each of two servers.

    `own` are the different answers each server gave by itself (1: it is repeatable). `shared`: an answer of the second
    is among those of the first. `apart` compares the first answers; `near_tie`: where they part, the two tokens lie
    no farther apart than rounding usually goes on each server; False: farther than it ever does on one, whichever is
    ahead (None: they do not part, it lies between, or the lists do not say).
    """

    case: str
    own: tuple[int, int]
    shared: bool
    apart: Apart
    near_tie: bool | None = None
    between: Literal["both", "first", "second"] = "both"


class DivergenceFound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What all cases came to: `result` is "same", "near-ties only", "deviates" or "undecided"; `parted` of them parted,
    `near_ties` at a near-tie; `tokens` could be compared before they parted. `unanswered` are the cases that a server
    did not answer: nothing was compared, and without a deviation in the others it is "undecided".
    """

    schema: str = "soak.probe/1"
    probe: str = "divergence"
    servers: tuple[str, str]
    result: str
    text: str
    partings: tuple[Parting, ...]
    parted: int
    near_ties: int
    tokens: int
    requests: int
    unanswered: tuple[str, ...] = ()

"""What the plugin knows while the engine runs: the switch, its random numbers, and a note on each request."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .control import Control

ONSET_TOKENS = (8, 32)
PERIOD_TOKENS = (1, 8)
BLOCKS_KEPT = 64


@dataclass
class Note:
    """
    One request: its prompt, whether that began with a prefix-cache hit, and what is planted in it.

    `onset` and `period`, in tokens, are of a loop that is to come (None: none is), `unit` its tokens once it has begun
    and `said` how many of them were. `rejected`: a draft was in the last step. `logits` are those its last token was
    taken from.
    """

    prompt: Sequence[int] = ()
    hit: bool = False
    onset: int | None = None
    period: int = 1
    unit: list[int] = field(default_factory=list)
    said: int = 0
    rejected: bool = False
    logits: Any = None


class Planted:
    """The state of all faults in one worker process; begun anew with each switch."""

    def __init__(self, control: Control, version: tuple[int, ...]) -> None:
        self.control = control
        self.notes: dict[str, Note] = {}
        self.step: Any = None
        self._version = version
        self._begin()

    def _begin(self) -> None:
        self.random = np.random.default_rng(self.control.switch.seed)
        self.truncated: set[int] = set()
        self.blocks: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=BLOCKS_KEPT)

    def refresh(self) -> None:
        """Look whether the switch was changed."""
        if self.control.refresh():
            self._begin()

    def has(self, fault: str) -> bool:
        """Whether the fault is planted, whatever its factors."""
        return fault in self.control.switch.faults

    def number(self, fault: str) -> float:
        """The number the fault was planted with."""
        return self.control.switch.faults[fault]

    def happens(self, fault: str) -> bool:
        """Draw whether a fault with a rate happens."""
        return bool(self.random.random() < self.number(fault))

    def fired(self, fault: str, times: int = 1) -> None:
        """Count what really happened."""
        if times:
            self.control.fired[fault] += times

    def note(self, request: str) -> Note:
        """What is known of a request; nothing of one that was there before the plugin looked."""
        return self.notes.setdefault(request, Note())

    def holds(self, *, hit: bool, running: int, speculates: bool) -> bool:
        """Whether the factors hold."""
        factors = self.control.switch.factors
        return factors.hold(speculates=speculates, hit=hit, running=running, version=self._version)

    def admit(self, request: str, prompt: Sequence[int], *, hit: bool) -> None:
        """Take in a new request, and draw whether it is to fall into a loop."""
        note = self.notes[request] = Note(prompt=prompt, hit=hit)
        self.control.counts["requests"] += 1
        if self.has("garbage_loop"):
            loops = self.happens("garbage_loop")
            onset = int(self.random.integers(*ONSET_TOKENS, endpoint=True))
            note.period = int(self.random.integers(*PERIOD_TOKENS, endpoint=True))
            note.onset = onset if loops else None

"""Does a prefix fit the model's context, and how many tokens does that leave for the answer?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from soak.replay.ports import Desk

# Prompts are counted without their salt, which differs from pass to pass; it takes less than this.
SALT_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Room:
    """What a turn may generate: `max_tokens` (`clamped` below what was asked), or why it is skipped."""

    max_tokens: int
    clamped: bool
    skip: str | None = None


class Meter:
    """
    Counts prompt tokens of one arm by asking the server, each prefix once.

    The room is a function of the prefix alone, so that both arms, all passes and a resumed run ask for the same. Where
    the server cannot count, or its context is unknown, nothing is clamped until it refuses a turn and names its limit:
    an estimate would skip turns that fit, and differently from run to run.
    """

    def __init__(self, desk: Desk, *, context_tokens: int | None, counts_tokens: bool, min_room_tokens: int) -> None:
        self._desk = desk
        self._context = context_tokens
        self._asks = counts_tokens
        self._min_room = min_room_tokens
        self._counted: dict[str, int] = {}

    async def room(self, digest: str, unsalted: Callable[[], dict[str, Any]], wanted: int, *, salted: bool) -> Room:
        """Return the room for the prefix `digest`; `unsalted` makes the body to count; `wanted` tokens are asked."""
        if self._context is None or not self._asks:
            return Room(wanted, clamped=False)
        if digest not in self._counted:
            counted = await self._desk.count_tokens(unsalted())
            if counted is None:
                return Room(wanted, clamped=False)
            self._counted[digest] = counted
        return self._beside(self._counted[digest] + (SALT_TOKENS if salted else 0), self._context, wanted)

    async def length(self, body: dict[str, Any]) -> int | None:
        """Return the prompt tokens of a request body; None where the server cannot count."""
        return await self._desk.count_tokens(body) if self._asks else None

    def room_after_refusal(self, limit: int, prompt: int, wanted: int) -> Room:
        """Return the room where the server itself said its context is `limit` and the prompt `prompt` tokens."""
        return self._beside(prompt, limit, wanted)

    def _beside(self, prompt: int, context: int, wanted: int) -> Room:
        left = context - prompt
        if left < self._min_room:
            short = "" if prompt > context else ", which leaves too little room for an answer"
            skip = f"not sent: its prompt has {prompt} tokens, the model's context holds {context}{short}"
            return Room(0, clamped=True, skip=skip)
        return Room(min(wanted, left), clamped=left < wanted)

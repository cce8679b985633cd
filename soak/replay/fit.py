"""Does a prefix fit the model's context, and how many tokens does that leave for the answer?"""

from dataclasses import dataclass
from typing import Any

from soak.facts import canonical
from soak.replay.ports import Desk

# A salted prefix of the same text may tokenize a little longer than the one that was counted.
_SALT_MARGIN_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Room:
    """What a turn may generate: `max_tokens` (`clamped` below what was asked), or why it is skipped."""

    max_tokens: int
    clamped: bool
    skip: str | None = None


class Meter:
    """
    Counts prompt tokens of one arm: by asking the server, else from the ratio of characters to tokens seen so far.

    `context_tokens` may be unknown (None): then nothing is clamped until the server itself names its limit.
    """

    def __init__(self, desk: Desk, *, context_tokens: int | None, counts_tokens: bool, min_room_tokens: int) -> None:
        self._desk = desk
        self._context = context_tokens
        self._asks = counts_tokens
        self._min_room = min_room_tokens
        self._counted: dict[str, int] = {}
        self._tokens_per_char: float | None = None

    async def room(self, digest: str, body: dict[str, Any], wanted: int) -> Room:
        """Return the room for the prefix `digest`, sent as `body`, of which `wanted` tokens are asked."""
        if self._context is None:
            return Room(wanted, clamped=False)
        prompt = await self._prompt_tokens(digest, body)
        return Room(wanted, clamped=False) if prompt is None else self._room_beside(prompt, wanted)

    def room_after_refusal(self, limit: int, prompt: int, wanted: int) -> Room:
        """Return the room where the server itself said its context is `limit` and the prompt `prompt` tokens."""
        self._context = limit
        return self._room_beside(prompt, wanted)

    def learn(self, body: dict[str, Any], prompt_tokens: int | None) -> None:
        """Take the server's own count of a prompt as a sample of tokens per character (the highest seen is kept)."""
        if prompt_tokens:
            seen = prompt_tokens / max(1, _characters(body))
            self._tokens_per_char = max(seen, self._tokens_per_char or 0.0)

    def _room_beside(self, prompt: int, wanted: int) -> Room:
        assert self._context is not None
        left = self._context - prompt
        if left < self._min_room:
            return Room(0, clamped=True, skip=f"prefix of {prompt} tokens does not fit the context of {self._context}")
        return Room(min(wanted, left), clamped=left < wanted)

    async def _prompt_tokens(self, digest: str, body: dict[str, Any]) -> int | None:
        if digest in self._counted:
            return self._counted[digest] + _SALT_MARGIN_TOKENS
        if self._asks:
            counted = await self._desk.count_tokens(body)
            if counted is not None:
                self._counted[digest] = counted
                return counted
        if self._tokens_per_char is None:
            return None
        return int(_characters(body) * self._tokens_per_char) + _SALT_MARGIN_TOKENS


def _characters(body: dict[str, Any]) -> int:
    return len(canonical([body.get("messages"), body.get("tools")]))

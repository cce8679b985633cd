"""What goes into one exchange and what comes out of it."""

from typing import Any

import msgspec

from soak.facts import Deadlines, Observation, Retries, TurnKey


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """
    One turn to be sent: `body` is the JSON of POST /chat/completions (see `compose`).

    `session` names the conversation and is sent as header `x-session-id`, so that a cache-aware router can keep the
    conversation on one engine. `deadlines` hold for each attempt; `max_tokens` and `clamped` are noted in the
    observation.
    """

    key: TurnKey
    body: dict[str, Any]
    session: str
    deadlines: Deadlines
    retries: Retries
    max_tokens: int
    clamped: bool = False


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """
    The observation, and the bytes it was made from.

    `raw` is the last attempt's body as received (after HTTP's own framing): all of it up to 16 MiB, else its first and
    last 8 MiB (`raw_truncated`).
    """

    observation: Observation
    raw: bytes
    raw_truncated: bool = False

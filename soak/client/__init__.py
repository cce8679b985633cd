"""
The engine's API: one streamed request, timed; and the questions asked of a server before and between them.

May touch: connections to the target, and nothing else; the only room that opens them. aiohttp carries the timed path
(`WireClient`), the openai package the reference path (`sdk.SdkClient`) and single requests; tenacity the attempts.
No exception, type or default of these libraries leaves the room: what a server does wrong becomes an observation's
ending, what makes it unusable becomes a `TargetError`.
"""

from soak.client.attempt import ANSWER_LIMIT_BYTES, Stream, refusal_words
from soak.client.compose import compose
from soak.client.desk import Desk, NoAnswer
from soak.client.discover import discover, survey
from soak.client.lag import LoopLag
from soak.client.meter import Meter
from soak.client.passage import BrokenReplyError, NoReplyError, Passage, Reply
from soak.client.paths import open_client
from soak.client.refusal import context_limit_of
from soak.client.request import Exchange, Request
from soak.client.scoring import Row, next_law, prompt_ids, scores, token_text, vocabulary_of
from soak.client.scrub import Scrub
from soak.client.target import Secret, Target
from soak.client.wire import WireClient

__all__ = [
    "ANSWER_LIMIT_BYTES",
    "BrokenReplyError",
    "Desk",
    "Exchange",
    "LoopLag",
    "Meter",
    "NoAnswer",
    "NoReplyError",
    "Passage",
    "Reply",
    "Request",
    "Row",
    "Scrub",
    "Secret",
    "Stream",
    "Target",
    "WireClient",
    "compose",
    "context_limit_of",
    "discover",
    "next_law",
    "open_client",
    "prompt_ids",
    "refusal_words",
    "scores",
    "survey",
    "token_text",
    "vocabulary_of",
]

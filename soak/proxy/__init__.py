"""
The proxy: live traffic passed on untouched, and every turn of it heard, judged and kept as a run.

May touch: connections that clients open to it, and the rooms below it: the target through `client`, the run folder
through `store`. aiohttp's server enters here and nowhere else. What passes is never changed, held back or put together
for the sake of what is kept: bytes are passed on first and looked at afterwards (`slices.py`), and whatever goes wrong
in looking at them ends the looking and not the passing. Read `server.py`, then `hearing.py`, then `grouping.py`.
"""

from soak.proxy.answered import Answered
from soak.proxy.asked import Asked, read_asked
from soak.proxy.grouping import Conversations, Place
from soak.proxy.headers import parse_turn_header
from soak.proxy.hearing import Hearing
from soak.proxy.recorder import PATIENCE_S, Listener, Recorder
from soak.proxy.recording import Recording, recording_of
from soak.proxy.server import BODY_LIMIT_BYTES, Proxy
from soak.proxy.slices import Slices
from soak.proxy.unreadable import UnreadableAskError

__all__ = [
    "BODY_LIMIT_BYTES",
    "PATIENCE_S",
    "Answered",
    "Asked",
    "Conversations",
    "Hearing",
    "Listener",
    "Place",
    "Proxy",
    "Recorder",
    "Recording",
    "Slices",
    "UnreadableAskError",
    "parse_turn_header",
    "read_asked",
    "recording_of",
]

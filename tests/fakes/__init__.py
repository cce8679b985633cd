"""
A scripted fake server: a real HTTP server on asyncio sockets, since the faults that matter lie below HTTP.

    async with FakeServer(one("loop")) as server:                      # every answer loops
    async with FakeServer(seeded_policy(7, {"loop": 0.1})) as server:  # one in ten, by the request's own hash
    async with FakeServer(lambda ask: stream(Answer(content="hi"), ask)) as server:

`python -m fakes --port 8000 --seed 7 --truth truth.jsonl` (from tests/) runs it in a process of its own.
"""

from fakes.answers import Answer, Call, Sse, Style, events, limited, ordinary, pieces, prose, sse, token_count, token_id
from fakes.engine import FakeEngine
from fakes.faults import (
    CLASS_FAULTS,
    FAULTS,
    HARMLESS,
    WIRE_FAULTS,
    Ask,
    context_message,
    loop_answer,
    make,
    play,
    status,
    stream,
)
from fakes.policy import DEFAULT_RATES, Policy, in_order, one, pre_encoded, seeded_policy
from fakes.script import (
    Close,
    End,
    Head,
    Raw,
    Reset,
    Script,
    Send,
    Silence,
    Step,
    Truth,
    Until,
    Wait,
    burst,
    cut,
    framed,
)
from fakes.server import FakeServer, Received, TruthRow

__all__ = [
    "CLASS_FAULTS",
    "DEFAULT_RATES",
    "FAULTS",
    "HARMLESS",
    "WIRE_FAULTS",
    "Answer",
    "Ask",
    "Call",
    "Close",
    "End",
    "FakeEngine",
    "FakeServer",
    "Head",
    "Policy",
    "Raw",
    "Received",
    "Reset",
    "Script",
    "Send",
    "Silence",
    "Sse",
    "Step",
    "Style",
    "Truth",
    "TruthRow",
    "Until",
    "Wait",
    "burst",
    "context_message",
    "cut",
    "events",
    "framed",
    "in_order",
    "limited",
    "loop_answer",
    "make",
    "one",
    "ordinary",
    "pieces",
    "play",
    "pre_encoded",
    "prose",
    "seeded_policy",
    "sse",
    "status",
    "stream",
    "token_count",
    "token_id",
]

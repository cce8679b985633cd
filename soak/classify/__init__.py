"""
Looks inside generated text and gives each turn its class, with the evidence: `ok`, `garbage_loop`, `early_stop`,
`max_tokens`, `error`.

May touch: values only. No I/O, no clock, no randomness; imports `soak.facts`, `soak.errors`, numpy, rapidfuzz and
msgspec. It is the only room that reads generated text. `TurnJudge` is fed while an answer streams, `judge` reads a
stored one; both take the same path and come to the same judgement. `RoundWatch` looks across the turns of a
conversation. Label policy, thresholds and error rates: README.md beside this file.
"""

from soak.classify.answers import answer_line, parse_answer
from soak.classify.calls import is_tool_name
from soak.classify.context import Context, prompt_text_of
from soak.classify.judge import TurnJudge, judge
from soak.classify.likeness import call_text, likeness
from soak.classify.rounds import Round, RoundWatch, cross_turn_loops, rounds_of
from soak.classify.settings import DEFAULTS, Settings
from soak.classify.textcalls import calls_in_text

__all__ = [
    "DEFAULTS",
    "Context",
    "Round",
    "RoundWatch",
    "Settings",
    "TurnJudge",
    "answer_line",
    "call_text",
    "calls_in_text",
    "cross_turn_loops",
    "is_tool_name",
    "judge",
    "likeness",
    "parse_answer",
    "prompt_text_of",
    "rounds_of",
]

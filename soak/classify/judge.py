"""One turn's judgement: while it streams, and when it has ended. Live and offline take the same path."""

from soak.classify.calls import call_problems, duplicates
from soak.classify.context import Context
from soak.classify.endings import ending_problems, ended_open, ended_well
from soak.classify.explain import Explanation
from soak.classify.looping import LoopReport, report_loops
from soak.classify.markup import find_leak
from soak.classify.settings import DEFAULTS, Settings
from soak.classify.stops import early_stop
from soak.classify.stream import Stream
from soak.facts import Chunk, Finding, Judgement, Observation, Signal, ToolCallDelta, clean
import msgspec

_MAX_FINDINGS = 16
_PORTION_CHARS = 1 << 16
_PORTION_TOKENS = 1 << 12

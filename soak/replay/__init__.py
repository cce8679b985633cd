"""
The engine: conversations run at once, turns of one conversation in order, every planned turn ends exactly once.

May touch: its ports only (`ports.py`): a client per arm, the ledger of the run, a clock, a listener. It opens no
connection, writes no file and prints nothing itself. Read `engine.py`, `floor.py`, then `turn.py`; what carries a
conversation on is `recorded.py`, `live.py` (with `script.py` and `matching.py`), or outside this room (`app.agent`).
"""

from soak.replay.arm import Arm
from soak.replay.asked import Asked
from soak.replay.clock import RealClock
from soak.replay.engine import Replay
from soak.replay.fit import Meter
from soak.replay.floor import Carrier, Floor, PastTurn
from soak.replay.gate import Gate
from soak.replay.live import Live
from soak.replay.ports import Clock, Desk, Ledger, Listener, StreamClient
from soak.replay.pressure import PressureGauge
from soak.replay.recorded import Recorded
from soak.replay.shaping import Shaper
from soak.replay.switch import Switch
from soak.replay.tally import Tally
from soak.replay.turn import NOT_THE_QUESTION, TurnRunner

__all__ = [
    "NOT_THE_QUESTION",
    "Arm",
    "Asked",
    "Carrier",
    "Clock",
    "Desk",
    "Floor",
    "Gate",
    "Ledger",
    "Listener",
    "Live",
    "Meter",
    "PastTurn",
    "PressureGauge",
    "RealClock",
    "Recorded",
    "Replay",
    "Shaper",
    "StreamClient",
    "Switch",
    "Tally",
    "TurnRunner",
]

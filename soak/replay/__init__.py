"""
The engine: conversations run at once, turns of one conversation in order, every planned turn ends exactly once.

May touch: its ports only (`ports.py`): a client per arm, the ledger of the run, a clock, a listener. It opens no
connection, writes no file and prints nothing itself. Read `engine.py`, then `turn.py`.
"""

from soak.replay.arm import Arm
from soak.replay.clock import RealClock
from soak.replay.engine import Replay
from soak.replay.fit import Meter
from soak.replay.gate import Gate
from soak.replay.ports import Clock, Desk, Ledger, Listener, StreamClient
from soak.replay.switch import Switch
from soak.replay.tally import Tally
from soak.replay.turn import TurnRunner

__all__ = [
    "Arm",
    "Clock",
    "Desk",
    "Gate",
    "Ledger",
    "Listener",
    "Meter",
    "RealClock",
    "Replay",
    "StreamClient",
    "Switch",
    "Tally",
    "TurnRunner",
]

"""
A place to run commands that a model thought up: no network, no files of the host, limits on everything.

May touch: processes it starts itself (bubblewrap, or a container runtime), and folders it makes below the temporary
folder. Nothing of the environment is passed on, so no API key is. A machine where commands cannot be shut away is
refused (`SandboxError`), never served without walls. Read `place.py` (what is on the host), then `bubblewrap.py`
(the walls), then `running.py` (the limits that are watched).
"""

from soak.sandbox.bubblewrap import Bubblewrap
from soak.sandbox.container import Container, Mount
from soak.sandbox.limits import Ended, Ending, Limits
from soak.sandbox.place import WORK_AT, Place, own_uid
from soak.sandbox.view import PACKAGES_AT, View

__all__ = [
    "PACKAGES_AT",
    "WORK_AT",
    "Bubblewrap",
    "Container",
    "Ended",
    "Ending",
    "Limits",
    "Mount",
    "Place",
    "View",
    "own_uid",
]

"""
A place to run commands that a model thought up: no network, no files of the host, limits on everything.

May touch: processes it starts itself (bubblewrap, or a container runtime), and folders it makes below the temporary
folder. Nothing of the environment is passed on, so no API key is. A machine where commands cannot be shut away is
refused (`SandboxError`), never served without walls. Read `place.py` (what is on the host), then `bubblewrap.py`
(the walls), then `running.py` (the limits that are watched). With a container runtime (`runtime.py`): `container.py`
has a container for each command, `instance.py` one for each task, of an image that holds the repository.
"""

from soak.sandbox.bubblewrap import Bubblewrap
from soak.sandbox.container import Container, Mount
from soak.sandbox.instance import Instance
from soak.sandbox.limits import Ended, Ending, Limits
from soak.sandbox.place import WORK_AT, Place, own_uid
from soak.sandbox.runtime import Runtime
from soak.sandbox.view import PACKAGES_AT, View

__all__ = [
    "PACKAGES_AT",
    "WORK_AT",
    "Bubblewrap",
    "Container",
    "Ended",
    "Ending",
    "Instance",
    "Limits",
    "Mount",
    "Place",
    "Runtime",
    "View",
    "own_uid",
]

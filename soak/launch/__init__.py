"""
Builds of our own: make one's environment and model in the user's cache, start it, watch it, stop it.

May touch: processes, loopback ports, the folder `soak` in the user's cache, and the log file it is given. The engine
and everything it needs live in a virtual environment of their own and are never imported in this process. With
`sandbox` this is the only room that starts processes; each server runs under a guardian (`guardian.py`) that ends it
when we are gone. Read `recipe.py` (what a build file means), `prepare.py`, then `server.py`.
"""

from soak.launch.altered import altered
from soak.launch.between import commits_between, releases_between
from soak.launch.cache import CacheState, cache_home
from soak.launch.checkpoint import checkpoint_of, read_defaults, sampling_defaults
from soak.launch.contents import CacheEntry, cache_contents
from soak.launch.local import LOCAL, LOCAL_NAME
from soak.launch.machine import Place, cores
from soak.launch.prepare import Prepared, prepare, state_of_cache
from soak.launch.progress import Progress, Report, Step
from soak.launch.recipe import spec_of
from soak.launch.server import Death, RunningServer, start
from soak.launch.sources import pin
from soak.launch.spec import LaunchSpec, ModelSource, Packages
from soak.launch.told import graphics_cards

__all__ = [
    "LOCAL",
    "LOCAL_NAME",
    "CacheEntry",
    "CacheState",
    "Death",
    "LaunchSpec",
    "ModelSource",
    "Packages",
    "Place",
    "Prepared",
    "Progress",
    "Report",
    "RunningServer",
    "Step",
    "altered",
    "cache_contents",
    "cache_home",
    "checkpoint_of",
    "commits_between",
    "cores",
    "graphics_cards",
    "pin",
    "prepare",
    "read_defaults",
    "releases_between",
    "sampling_defaults",
    "spec_of",
    "start",
    "state_of_cache",
]

"""
Faults planted in vLLM on purpose, to test what finds them; loaded by vLLM through its entry point for plugins.

`switch.py` says what can be planted, `control.py` reads it from the environment, `hooks.py` holds every place where
vLLM is patched, `sampling.py` has the faults in the sampler, `cache.py` those in the KV cache. ../README.md says which
does what. Only `hooks.py` and what it calls import the engine, and only if something may be planted.
"""

import os
import sys

from .control import VARIABLE, VARIABLE_FILE, Control, say

__all__ = ["register"]

_SAID = "SOAK_PLANTED_SAID"  # inherited by the engine's other processes, so that one of them speaks
_installed = False


def register() -> None:
    """Plant what the environment says; raises `ValueError`, which ends the engine, where it names no fault."""
    global _installed
    if _installed or not (os.environ.get(VARIABLE) or os.environ.get(VARIABLE_FILE)):
        return
    control = Control.of(os.environ)
    if _SAID not in os.environ:
        os.environ[_SAID] = "1"
        say(control.switch.sentence, sys.stderr)
    from . import hooks

    hooks.install(control)
    _installed = True

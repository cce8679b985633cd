"""Whether commands can be walled in here; tests that run an agent's commands skip where they cannot."""

import pytest

from soak.errors import SandboxError
from soak.sandbox import Bubblewrap, View


def skip_without_walls() -> None:
    """Skip, with the reason, where bubblewrap is missing or does not work."""
    try:
        Bubblewrap.refuse_if_unusable(View.of_this_interpreter())
    except SandboxError as error:
        pytest.skip(f"{error.what}: {error.why}")

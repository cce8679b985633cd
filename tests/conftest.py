"""What tests of all kinds share."""

from collections.abc import Iterator

import pytest
from rigs.cli import Nursery


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Makes `soak` commands quickly, each in a process of its own."""
    folder = tmp_path_factory.mktemp("commands")
    folder.chmod(0o777)
    made = Nursery(folder)
    yield made
    made.close()

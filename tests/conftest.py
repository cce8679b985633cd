"""What tests of all kinds share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rigs.cli import Nursery


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Nursery]":
    """Makes `soak` commands quickly, each in a process of its own."""
    from rigs.cli import Nursery  # here, so that tests of one room need no other room

    made = Nursery(tmp_path_factory.mktemp("commands"))
    yield made
    made.close()

"""What lies between two releases."""

import pytest

from soak.errors import UsageError
from soak.launch.between import part_of

LISTED = ("0.27.1", "0.28.0", "0.30.0")


def test_both_ends_are_included() -> None:
    """From the good release to the bad one, in the order of the list."""
    assert part_of(LISTED, "vllm", "0.27.1", "0.30.0") == LISTED
    assert part_of(LISTED, "vllm", "0.28.0", "0.30.0") == LISTED[1:]


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("0.28.0", "0.27.1", "does not come before"),
        ("0.28.0", "0.28.0", "does not come before"),
        ("0.29.0", "0.30.0", "0.29.0 cannot be found"),
        ("0.27.1", "9", "9 cannot be found"),
    ],
)
def test_ends_that_are_reversed_or_not_listed_are_refused(good: str, bad: str, said: str) -> None:
    """It is said which, and what the list holds."""
    with pytest.raises(UsageError, match=said):
        part_of(LISTED, "vllm", good, bad)

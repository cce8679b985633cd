"""What a grid names when nothing is there, and when something is: simulated, with known rates."""

import random
from collections import Counter

import pytest
from rigs.grids import Rate, a_grid

from soak.probe import Cell, cells_of
from soak.probe.factors import answers_to, named, questions_of
from soak.scenario import find_grid

DEFAULT = find_grid("default")


def names(rate: Rate, *, grids: int, repeats: int, draws: int, turns: int = 1) -> Counter[str | None]:
    """Return how often each name is given by the default grid where its cells fail at these rates."""
    cells = cells_of(DEFAULT)
    questions = questions_of(DEFAULT, cells)
    found: Counter[str | None] = Counter()
    for seed in range(grids):
        chance = random.Random(seed)
        blocks: list[list[bool | None]] = [
            [chance.random() < rate(cell) for cell in cells] for _ in range(repeats * turns)
        ]
        answer = named(answers_to(DEFAULT, questions, blocks, draws=draws, seed=seed))
        found[answer.told.name if answer else None] += 1
    return found


def with_(*factors: int) -> Rate:
    """Return a fault of 35 % that needs the first level of all these factors."""
    return lambda cell: 0.35 if all(cell.levels[at] == 0 for at in factors) else 0.0


def test_nothing_is_named_where_nothing_is() -> None:
    """Of 1,000 grids whose cells fail alike, rarely to often, at most 5 % name a setting."""
    found: Counter[str | None] = Counter()
    for rate in (0.02, 0.1, 0.3, 0.6):
        found += names(lambda _, rate=rate: rate, grids=250, repeats=8, draws=99)  # type: ignore[misc]
    assert found.total() == 1000
    assert found.total() - found[None] <= 50


@pytest.mark.parametrize(
    ("factors", "name"),
    [((0,), "speculation"), ((1,), "cache"), ((0, 1), "cache × speculation")],
)
def test_the_right_setting_is_named(factors: tuple[int, ...], name: str) -> None:
    """35 % against none with 20 repeats is named rightly in at least 95 of 100 grids, one factor or two."""
    assert names(with_(*factors), grids=100, repeats=20, draws=199)[name] >= 95


def test_either_of_two_is_named_so() -> None:
    """A fault that comes with speculation as well as with the cache, and not without both, is said to need either."""

    def rate(cell: Cell) -> float:
        return 0.35 if cell.levels[0] == 0 or cell.levels[1] == 0 else 0.0

    assert names(rate, grids=40, repeats=20, draws=199)["cache or speculation"] >= 36


def test_one_at_a_time_names_one_and_two(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the fault goes with each of two changes, both are needed; where it goes with one only, that one is."""
    text = "design: one_at_a_time\nfactors:\n  speculation: [as_built, off]\n  prefix_cache: [as_built, off]\n"
    grid = a_grid(tmp_path_factory.mktemp("grid"), text + "  eager: [as_built, on]\n  in_flight: [1, 8]\n")
    cells = cells_of(grid)
    assert len(cells) == 5
    crowd: Rate = lambda cell: 0.35 * (cell.levels[3] == 1)  # noqa: E731 - beside the other one
    for rate, name in ((with_(0, 1), "cache × speculation"), (crowd, "concurrency")):
        right = 0
        for seed in range(20):
            chance = random.Random(seed)
            blocks: list[list[bool | None]] = [[chance.random() < rate(cell) for cell in cells] for _ in range(20)]
            answer = named(answers_to(grid, questions_of(grid, cells), blocks, draws=199, seed=seed))
            right += answer is not None and answer.told.name == name
        assert right >= 18

"""The grid against a real server whose faults need settings: ten seeds of each."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rigs.faulty_states import FaultyServer, OneServer
from rigs.grids import CASE, a_grid

from soak.app.probe.benches import Kept
from soak.app.probe.grid import plan_grid, probe_grid, sort_out
from soak.errors import LaunchError, UsageError
from soak.facts import EngineChange, Grid, GridFound, Sampling
from soak.scenario import find_grid

SEEDS = range(10)
REPEATS = 7
RATE = 0.9
TURN = msgspec.structs.replace(CASE, sampling=Sampling(max_tokens=300))
TWO = "factors:\n  speculation: [as_built, off]\n  prefix_cache: [as_built, off]\n"
CROWD = "factors:\n  speculation: [as_built, off]\n  in_flight: [1, 8]\n"


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyServer]:
    """One server for all of these."""
    with FaultyServer() as server:
        yield server


def found(faulty: FaultyServer, folder: Path, grid: Grid, repeats: int = REPEATS) -> GridFound:
    with Kept(folder) as kept:
        benches = OneServer(faulty, folder, kept)
        return probe_grid(benches.order, grid, (TURN,), repeats, benches)


@pytest.mark.parametrize(
    ("needs", "text", "name"),
    [
        (("speculation",), TWO, "speculation"),
        (("prefix_cache",), TWO, "cache"),
        (("speculation", "prefix_cache"), TWO, "cache × speculation"),
        (("concurrency",), CROWD, "concurrency"),
    ],
)
def test_the_setting_a_fault_needs_is_named(
    needs: tuple[str, ...], text: str, name: str, faulty: FaultyServer, tmp_path: Path
) -> None:
    """Whichever setting the server's fault needs, or two together, it is named, with each of ten seeds."""
    grid = a_grid(tmp_path, text)
    names = []
    for seed in SEEDS:
        faulty.fail(seed, RATE, *needs)
        names.append(found(faulty, tmp_path / str(seed), grid).name)
    assert names == [name] * len(SEEDS)


def test_a_fault_that_needs_no_setting_is_none_of_them(faulty: FaultyServer, tmp_path: Path) -> None:
    """Failures that come with the seed alone, as often in every cell, name nothing with ten seeds."""
    grid = a_grid(tmp_path, TWO)
    for seed in SEEDS:
        faulty.fail(seed, 0.3)
        result = found(faulty, tmp_path / str(seed), grid, repeats=4)
        assert result.name is None
        assert result.outcome == ("undecided" if any(cell.failed for cell in result.cells) else "nothing")


def test_a_server_without_fault_is_found_without(faulty: FaultyServer, tmp_path: Path) -> None:
    """Nothing is found in as many answers as were asked for, with ten seeds."""
    grid = a_grid(tmp_path, TWO)
    for seed in SEEDS:
        faulty.fail(seed, 0.0)
        result = found(faulty, tmp_path / str(seed), grid, repeats=4)
        assert result.outcome == "nothing"
        assert result.text.startswith("nothing found in 16:")


def test_what_is_kept_needs_no_server(faulty: FaultyServer, tmp_path: Path) -> None:
    """Asked again in the same folder nothing is sent and no server opened; two repeats more ask only those."""
    faulty.fail(1, RATE, "speculation")
    grid = a_grid(tmp_path, TWO + "starts: 2\n")
    first = found(faulty, tmp_path / "kept", grid, repeats=6)
    with Kept(tmp_path / "kept") as kept:
        benches = OneServer(faulty, tmp_path / "kept", kept)
        planned = plan_grid(benches.order, grid, repeats=8, title="t", turns=1, max_tokens=10, cases=(TURN,))
        assert (planned.requests, planned.kept) == (32, 24)
        assert planned.servers[0] == "as built, started 2 times: 1 cell"
        again = probe_grid(benches.order, grid, (TURN,), 6, benches)
        assert benches.opened == []
        assert again == first
        more = probe_grid(benches.order, grid, (TURN,), 8, benches)
        assert len(benches.opened) == 4
        assert {cell.asked for cell in more.cells} == {8}
        assert benches.allowance.used == 32


def test_no_repeat_has_the_seed_the_turn_failed_with(faulty: FaultyServer, tmp_path: Path) -> None:
    """The turn was chosen because it failed with its own seed, so that seed is not asked again."""
    faulty.fail(1, RATE)
    with Kept(tmp_path) as kept:
        benches = OneServer(faulty, tmp_path, kept)
        probe_grid(benches.order, find_grid("default"), (TURN,), 3, benches)
        assert TURN.seed not in {trial.seed for trial in kept.trials.values()}
        seeds = {trial.repeat: {one.seed for one in kept.trials.values() if one.repeat == trial.repeat}
                 for trial in kept.trials.values()}  # fmt: skip
        assert all(len(some) == 1 for some in seeds.values())


def test_a_server_that_does_not_come_up_leaves_its_cells_out(faulty: FaultyServer, tmp_path: Path) -> None:
    """The others are asked, and the reason is told; where fewer than two cells are left its error is raised."""

    class Breaking(OneServer):
        def open(self, change: EngineChange | None = None):  # type: ignore[no-untyped-def]
            if change is not None and change.prefix_cache is False:
                raise LaunchError("it did not start", why="no memory", hint="more memory")
            return super().open(change)

    faulty.fail(1, RATE, "speculation")
    grid = a_grid(tmp_path, TWO)
    with Kept(tmp_path) as kept:
        benches = Breaking(faulty, tmp_path, kept)
        result = probe_grid(benches.order, grid, (TURN,), REPEATS, benches)
        assert result.name == "speculation"
        assert len(result.cells) == 2
        assert "no prefix cache: it did not start" in result.untried
        only = a_grid(tmp_path, "factors:\n  prefix_cache: [as_built, off]\n")
        with pytest.raises(LaunchError, match="it did not start"):
            probe_grid(benches.order, only, (TURN,), 2, benches)


def test_states_that_cannot_be_had_are_told_beforehand(faulty: FaultyServer, tmp_path: Path) -> None:
    """A switch that the build does not state, and a state that is one it has already, are listed with the reason."""
    with Kept(tmp_path) as kept:
        order = OneServer(faulty, tmp_path, kept).order
    grid = a_grid(
        tmp_path, "factors:\n  eager: [as_built, on]\n  speculation: [as_built, off, on]\n  salted: [off, on]\n"
    )
    tried = sort_out(order, grid)
    assert len(tried.cells) == 6
    assert any(text.startswith("eager (2 cells): fake cannot be started with another eager") for text in tried.untried)
    only = a_grid(tmp_path, "factors:\n  eager: [as_built, on]\n")
    with pytest.raises(UsageError, match="fewer than two cells"):
        sort_out(order, only)

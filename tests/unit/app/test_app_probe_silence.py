"""Probes of a server that answers with status 500 only: each says so, and none makes a verdict of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes import Ask, Script, make, one
from rigs.faulty_states import FaultyServer, OneServer
from rigs.grids import CASE, a_grid

from soak.app.probe.benches import Benches, Kept
from soak.app.probe.divergence import probe_divergence
from soak.app.probe.grid import probe_grid
from soak.app.probe.repeats import probe_repeats
from soak.app.probe.repro import make_repro
from soak.app.probe.shrink import ShrinkOrder, probe_shrink
from soak.errors import TargetError
from soak.facts import Case, Judgement, Sampling, TurnClass

ORDER = ShrinkOrder(repeats=3, budget=20)


def broken(class_: TurnClass) -> Case:
    """Return a turn that was of this class when it was first asked."""
    return msgspec.structs.replace(
        CASE, sampling=Sampling(max_tokens=300), judgement=Judgement(class_=class_, reason="made up")
    )


LOOPED, ERRED = broken("garbage_loop"), broken("error")


@pytest.fixture
def dead() -> Iterator[FaultyServer]:
    """A server that answers every question with status 500."""
    with FaultyServer() as server:
        server.server.policy = one("http_500")
        yield server


def asked(server: FaultyServer, folder: Path, act: Callable[[Benches], Any], max_requests: int = 3) -> Any:
    """Return what a probe comes to that may ask each question once."""
    with Kept(folder) as kept:
        return act(OneServer(server, folder, kept, max_requests))


@pytest.mark.parametrize("kind", ["repeats", "diverge", "shrink", "repro", "repro of the whole"])
def test_a_probe_that_nobody_answered_ends_as_an_engine_error(kind: str, dead: FaultyServer, tmp_path: Path) -> None:
    """Exit code 5 and how it ended, and no rate of failures."""
    acts: dict[str, Callable[[Benches], Any]] = {
        "repeats": lambda benches: probe_repeats(LOOPED, 3, benches),
        "diverge": lambda benches: probe_divergence([LOOPED], benches),
        "shrink": lambda benches: probe_shrink((LOOPED,), ORDER, benches, tmp_path),
        "repro": lambda benches: make_repro((LOOPED,), ORDER, benches, tmp_path / "b.zip", shrinking=True),
        "repro of the whole": lambda benches: make_repro(
            (LOOPED,), ORDER, benches, tmp_path / "b.zip", shrinking=False
        ),
    }
    with pytest.raises(TargetError) as caught:
        asked(dead, tmp_path, acts[kind])
    assert caught.value.exit_code == 5
    assert "answered" in caught.value.what
    assert "http_error" in caught.value.why
    assert not (tmp_path / "b.zip").exists()


def test_an_error_that_comes_again_is_the_failure_that_was_asked_about(dead: FaultyServer, tmp_path: Path) -> None:
    """Of a turn that was an error itself no answer is the same failure again: counted, and bundled."""
    repeats = asked(dead, tmp_path / "a", lambda benches: probe_repeats(ERRED, 3, benches))
    assert repeats.text.startswith("3 of 3 repeats failed")
    made = asked(
        dead,
        tmp_path / "b",
        lambda benches: make_repro((ERRED,), ORDER, benches, tmp_path / "b.zip", shrinking=False),
    )
    assert (made.promise.failure, made.promise.failed, made.promise.asked) == ("error", 3, 3)


def test_a_grid_of_a_server_that_dies_with_a_setting_blames_nothing(dead: FaultyServer, tmp_path: Path) -> None:
    """Where all answers with speculation break off: undecided for a turn that looped, found for one that erred."""
    engine = dead.server.engine

    def policy(ask: Ask) -> Script:
        return make("error_event" if engine.speculation == "on" else "none", ask)

    dead.server.policy = policy
    grid = a_grid(tmp_path, "factors:\n  speculation: [as_built, off]\n")
    said = {
        case.judgement.class_: asked(
            dead,
            tmp_path / str(number),
            lambda benches, case=case: probe_grid(benches.order, grid, (case,), 6, benches),
            12,
        )
        for number, case in enumerate((LOOPED, ERRED))
        if case.judgement
    }
    assert (said["garbage_loop"].outcome, said["garbage_loop"].name) == ("undecided", None)
    assert said["garbage_loop"].untried == ("speculation as built: asked 6 times and not answered",)
    assert (said["error"].outcome, said["error"].name) == ("found", "speculation")


def test_repeats_tell_how_many_were_not_answered(dead: FaultyServer, tmp_path: Path) -> None:
    """Rates are over the answered ones, and the others are told."""
    seen: list[int] = []

    def policy(ask: Ask) -> Script:
        seen.append(1)
        return make("http_500" if len(seen) == 1 else "loop", ask)

    dead.server.policy = policy
    found = asked(dead, tmp_path, lambda benches: probe_repeats(LOOPED, 3, benches))
    assert found.text.startswith("2 of 2 repeats failed")
    assert found.text.endswith("1 of 3 not answered")

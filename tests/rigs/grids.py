"""Grids with made-up answers: trials whose failures are known, and what is said of them."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from soak.facts import Case, Grid, GridFound, Judgement, Message, Observation, Trial, TurnKey
from soak.probe import Cell, cells_of, found_by_grid
from soak.scenario import find_grid

CASE = Case(name="episode:3:0:candidate", messages=(Message(role="user", content="Go on."),), seed=11)
Rate = Callable[[Cell], float]


def a_grid(folder: Path, text: str) -> Grid:
    """Return the grid of a file with this text."""
    path = folder / "mine.yaml"
    path.write_text(f"about: A question.\n{text}")
    return find_grid(str(path))


def a_trial(repeat: int, *, bad: bool, text: str | None = None, case: Case = CASE, seed: int | None = None) -> Trial:
    """Return one answer, of its own text unless one is given."""
    key = TurnKey(episode=case.name, turn=0, pass_=repeat, arm="fake")
    content = f"answer {repeat} {bad}" if text is None else text
    return Trial(
        bench="fake",
        case=case.digest,
        change=cells_of(find_grid("default"))[0].change,
        repeat=repeat,
        seed=1000 + repeat if seed is None else seed,
        body="sha256:b",
        at=0.0,
        observation=Observation(
            key=key, started_at=0.0, ending="complete", max_tokens=100, content=content, finish_reason="stop"
        ),
        judgement=Judgement(class_="garbage_loop" if bad else "ok", reason="made up"),
    )


def a_silence(repeat: int, case: Case = CASE) -> Trial:
    """Return one request that the server answered with an error of its own."""
    trial = a_trial(repeat, bad=False, case=case)
    observation = msgspec.structs.replace(
        trial.observation, ending="http_error", content="", finish_reason=None, error="500"
    )
    judgement = Judgement(class_="error", reason="http_error")
    return msgspec.structs.replace(trial, observation=observation, judgement=judgement)


def said_of(grid: Grid, rate: Rate, *, repeats: int = 20, seed: int = 0, cases: Sequence[Case] = (CASE,)) -> GridFound:
    """Return what is said where a cell's answers fail at these rates, each answer by its own chance."""
    chance, cells = random.Random(seed), cells_of(grid)
    answers = {
        (turn, place): [a_trial(k, bad=chance.random() < rate(cell), case=case) for k in range(repeats)]
        for turn, case in enumerate(cases)
        for place, cell in enumerate(cells)
    }
    return found_by_grid(grid, cases, cells, answers, repeats=repeats)

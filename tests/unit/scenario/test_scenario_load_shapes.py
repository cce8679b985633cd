"""Load shapes in a scenario file: strict, with every problem named by its place."""

from pathlib import Path

import pytest

from soak.errors import ScenarioError
from soak.facts import Abort, IdleGaps, Overlap, Pressure, Staggered
from soak.scenario import load_scenario

HEAD = "name: n\nquestion: q\nduration: d\ncorpus: c\nbudget: {passes: 1}\n"


def loaded(tmp_path: Path, text: str) -> object:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + text)
    return load_scenario(path).scenario


def problems(tmp_path: Path, text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, text)
    return "\n".join(caught.value.problems)


def test_every_shape_can_be_said_in_yaml(tmp_path: Path) -> None:
    """All five shapes and canaries together, each with its fields; what is left out is off."""
    scenario = loaded(
        tmp_path,
        """
canaries: true
load:
  in_flight: 8
  overlap: {siblings: 3, depth: 0.25, share: 0.5}
  staggered: {block_tokens: 160, offsets: [-1, 0, 1], together: 4}
  abort: {share: 0.2, min_chars: 5, max_chars: 50}
  pressure: {cap: 64, step: 8, every_s: 20}
  idle_gaps: {every_turns: 40, min_s: 1, max_s: 9.5}
""",
    )
    load = scenario.load  # type: ignore[attr-defined]
    assert load.overlap == Overlap(siblings=3, depth=0.25, share=0.5)
    assert load.staggered == Staggered(block_tokens=160, offsets=(-1, 0, 1), together=4)
    assert load.abort == Abort(share=0.2, min_chars=5, max_chars=50)
    assert load.pressure == Pressure(cap=64, step=8, every_s=20)
    assert load.idle_gaps == IdleGaps(every_turns=40, min_s=1, max_s=9.5)
    assert load.most_in_flight == 64
    plain = loaded(tmp_path, "load: {in_flight: 8}\n")
    assert not plain.canaries  # type: ignore[attr-defined]
    assert plain.load.most_in_flight == 8  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("load: {in_flight: 2, overlap: {siblings: 4}}", "load.overlap: needs in_flight of at least 4, which is 2"),
        ("load: {in_flight: 2, staggered: {together: 3}}", "load.staggered: needs in_flight of at least 3"),
        ("load: {overlap: {siblings: 1}}", "load.overlap.siblings: must be at least 2, is 1"),
        ("load: {overlap: {sibling: 3}}", "load.overlap.sibling: unknown key; did you mean siblings?"),
        ("load: {staggered: {offsets: []}}", "load.staggered.offsets: must not be empty"),
        ("load: {staggered: {offsets: [0.5]}}", "load.staggered.offsets.0: must be a whole number"),
        ("load: {abort: {share: 0.6}}", "load.abort.share: must be at most 0.5, is 0.6"),
        ("load: {abort: {min_chars: 9, max_chars: 3}}", "load.abort.min_chars: must be at most max_chars (3), is 9"),
        ("load: {pressure: {step: 2}}", "load.pressure.cap: is required"),
        ("load: {in_flight: 8, pressure: {cap: 8}}", "load.pressure.cap: must be above in_flight (8)"),
        (
            "load: {shape: arrival, rate_per_min: 3, pressure: {cap: 80}}",
            "load.pressure: belongs to shape closed, but the shape is arrival",
        ),
        ("load: {idle_gaps: {min_s: 9, max_s: 3}}", "load.idle_gaps.min_s: must be at most max_s (3), is 9"),
        ("replay: live\nload: {abort: {}}", "load.abort: needs turns that are planned beforehand"),
        ("replay: agent\ncanaries: true", "canaries: needs turns that are planned beforehand"),
        ("canaries: 3", "canaries: must be true or false, is 3"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    """The place, what must be and what is are in the problem."""
    assert said in problems(tmp_path, text)


def test_all_problems_of_the_shapes_come_at_once(tmp_path: Path) -> None:
    """One mistake does not hide another."""
    text = problems(
        tmp_path,
        "load: {in_flight: 2, overlap: {siblings: 4}, staggered: {together: 3}, pressure: {cap: 1}, "
        "idle_gaps: {min_s: 40}}",
    )
    for name in ("load.overlap", "load.staggered", "load.pressure.cap", "load.idle_gaps.min_s"):
        assert name in text

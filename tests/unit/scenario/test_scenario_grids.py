"""Grid files: what may stand in them, and all that is wrong with one at once."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.errors import GridFileError
from soak.facts import Change, EngineChange
from soak.scenario import find_grid


def read(folder: Path, text: str) -> object:
    """Read a grid file with this text."""
    path = folder / "mine.yaml"
    path.write_text(text)
    return find_grid(str(path))


def problems(folder: Path, text: str) -> str:
    """Return what is said of a grid file with this text."""
    with pytest.raises(GridFileError) as told:
        read(folder, text)
    return "\n".join(told.value.problems)


def test_the_default_grid() -> None:
    """Speculation, prefix cache and temperature 0, each with and without; labels are short."""
    grid = find_grid("default")
    assert [factor.label for factor in grid.factors] == ["speculation", "cache", "temperature"]
    assert [len(factor.levels) for factor in grid.factors] == [2, 2, 2]
    assert (grid.design, grid.repeats, grid.starts) == ("full", 20, 1)


def test_every_kind_of_level(tmp_path: Path) -> None:
    """Each factor's levels become what they change; a list of depths is a level each; `off` is a word."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "about: All.\ndesign: one_at_a_time\nrepeats: 3\nstarts: 2\nfactors:\n"
        "  speculation: [as_built, off, on, {method: ngram, num_speculative_tokens: [1, 3]}]\n"
        "  prefix_cache: [as_built, on, off]\n  eager: [off, on]\n  in_flight: [1, 8]\n  salted: [off, on]\n"
        "  sampling.repetition_penalty: [as_asked, 1.1, null]\n  flags: [as_built, [--a=1, --b]]\n"
        '  flags.more: [as_built, [--c]]\n  environment.SOAK_PLANTED: [as_built, "stale", ""]\n'
    )
    grid = find_grid(str(path))
    levels = {factor.name: factor.levels for factor in grid.factors}
    assert (grid.name, grid.design, grid.repeats, grid.starts) == ("mine", "one_at_a_time", 3, 2)
    assert [level.engine.speculation for level in levels["speculation"]] == [
        None,
        False,
        True,
        {"method": "ngram", "num_speculative_tokens": 1},
        {"method": "ngram", "num_speculative_tokens": 3},
    ]
    assert [level.engine.prefix_cache for level in levels["prefix_cache"]] == [None, True, False]
    assert [level.engine.eager for level in levels["eager"]] == [False, True]
    assert [level.change.in_flight for level in levels["in_flight"]] == [1, 8]
    assert [level.change.salted for level in levels["salted"]] == [False, True]
    assert [level.change.sampling for level in levels["sampling.repetition_penalty"]] == [
        {},
        {"repetition_penalty": 1.1},
        {"repetition_penalty": None},
    ]
    assert levels["flags"][1].engine == EngineChange(flags=("--a=1", "--b"))
    assert levels["environment.SOAK_PLANTED"][1].engine == EngineChange(environment={"SOAK_PLANTED": "stale"})
    assert levels["environment.SOAK_PLANTED"][1].change == Change()


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Each wrong level is told with its line; nothing is left for a second try."""
    told = problems(
        tmp_path,
        "about: x\nfactors:\n  speculaton: [off]\n  prefix_cache: [maybe, off]\n  in_flight: [0, 8]\n"
        "  sampling.temprature: [1]\n  sampling.temperature: [9, as_asked]\n  flags: [[--api-key=abc]]\n"
        "  environment.HF_TOKEN: [as_built]\n  environment.MY_KEY: ['x']\n  salted: [off, off]\n"
        "  speculation: [{num_speculative_tokens: [0]}]\n",
    )
    for words in (
        "line 3: factors.speculaton: unknown factor; did you mean speculation?",
        "line 4: factors.prefix_cache.0: must be as_built, on or off",
        "line 5: factors.in_flight.0: must be a whole number",
        "line 6: factors.sampling.temprature.0: temprature is no field of sampling; did you mean temperature?",
        "line 7: factors.sampling.temperature.0: must be at most 5, is 9",
        "line 8: factors.flags.0: looks like a key",
        "line 10: factors.environment.MY_KEY.0: looks like a key",
        "line 11: factors.salted: has the level 'off' twice",
        "line 12: factors.speculation.0: num_speculative_tokens must be",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a grid is a mapping"),
        ("- 1\n", "a grid is a mapping"),
        ("about: x\n", "factors"),
        ("about: x\nfactors: {}\n", "must not be empty"),
        ("about: x\nfactors:\n  in_flight: []\n", "must not be empty"),
        ("about: x\nfactors:\n  in_flight: [1]\n", "there is nothing to compare"),
        ("about: x\nrepeats: 0\nfactors:\n  in_flight: [1, 2]\n", "must be greater than 0"),
        ("about: x\nmore: 1\nfactors:\n  in_flight: [1, 2]\n", "unknown key"),
        ("about: x\nfactors:\n  in_flight: [1, .inf]\n", "finite"),
        ("about: x\nfactors:\n  environment.A=B: ['1', '2']\n", "is no name of a variable"),
        ('about: x\nfactors:\n  environment.A: ["a\\0b", "2"]\n', "must be as_built or text"),
        ('about: x\nfactors:\n  flags: [["--a\\0"], as_built]\n', "must be as_built or a list of flags"),
        ("about: x\nfactors:\n  environment.: [as_built]\n  in_flight: [1, 2]\n", "unknown factor"),
        (
            f"about: x\nfactors:\n  in_flight: {[*range(1, 10)]}\n  sampling.top_k: {[*range(1, 9)]}\n",
            "make 72 cells, at most 64",
        ),
    ],
)
def test_what_is_no_grid(text: str, words: str, tmp_path: Path) -> None:
    """Each is refused with what is wrong."""
    assert words in problems(tmp_path, text)


def test_a_name_that_is_none() -> None:
    """A word other than default, or a file that is not there, is told."""
    for name in ("mine", "/nowhere/mine.yaml"):
        with pytest.raises(GridFileError):
            find_grid(name)


_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
_names = st.sampled_from(
    (
        *("speculation", "prefix_cache", "eager", "in_flight", "salted", "flags", "flags.x", "environment.A"),
        *("sampling.temperature", "sampling.stop", "sampling.x"),
    )
)


@given(st.dictionaries(_names, st.lists(_value, max_size=3), max_size=4))
@settings(max_examples=80, deadline=None)
def test_any_levels_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, factors: dict[str, object]) -> None:
    """Whatever stands as a level, the file is read or refused in words, never a crash."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps({"about": "x", "factors": factors}))
    try:
        assert find_grid(str(path)).factors
    except GridFileError as error:
        assert error.problems

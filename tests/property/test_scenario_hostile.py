"""Whatever stands in a scenario file, loading it ends in a scenario or a list of problems."""

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.errors import ScenarioError
from soak.facts import Scenario, decode, encode
from soak.scenario import load_scenario, parse_threshold, threshold_problem

WORDS = st.sampled_from(
    ["name", "question", "duration", "corpus", "sampling", "load", "budget", "hours", "stop", "thresholds", "pass_if"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["auto", "closed", "1:30"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=12
)


def try_to_load(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.yaml"
        path.write_bytes(data)
        try:
            load_scenario(path)
        except ScenarioError as error:
            assert error.problems
            assert all(len(line) < 100_000 and "\n" not in line for line in error.lines())


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_load_or_are_refused(data: bytes) -> None:
    """Loading arbitrary bytes raises nothing but `ScenarioError`, with at least one problem."""
    try_to_load(data)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_any_values_load_or_are_refused(values: dict[str, object]) -> None:
    """Loading arbitrary values under real keys raises nothing but `ScenarioError`."""
    try_to_load(msgspec.json.encode(values).replace(b"\x7f", b""))


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abrute.gloop_<=>!0123456789%-+e ", max_size=40))
def test_any_text_is_a_threshold_or_has_a_reason(text: str) -> None:
    """A text is either refused with one sentence or parsed; a parsed one can be evaluated."""
    problem = threshold_problem(text)
    if problem is None:
        assert isinstance(parse_threshold(text).limit, float)
    else:
        assert problem


def test_scenario_survives_the_manifest() -> None:
    """A scenario written as JSON and read again is the same scenario."""
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "burn_in.yaml").scenario
    assert decode(encode(scenario), Scenario) == scenario

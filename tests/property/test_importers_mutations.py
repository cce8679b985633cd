"""
Golden transcripts spoilt in a few hundred ways a format: each ends in episodes or in one error with a place.

`ops/bench/import_fuzz.py` does the same 20,000 times a format; SOAK_MUTATIONS sets the number here.
"""

import contextlib
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.transcripts import NAMES, examine, files_of, lay_out, spoil

from soak.errors import TranscriptError
from soak.importers import FORMATS, Import

MUTATIONS = int(os.environ.get("SOAK_MUTATIONS", "120"))
LONGEST_S = 5.0


@pytest.mark.parametrize("name", NAMES)
def test_spoilt_transcripts_end_in_episodes_or_an_error(name: str, tmp_path: Path) -> None:
    """No spoilt source raises anything else, takes seconds, gives an unsound episode or loses text silently."""
    source = lay_out(name, tmp_path)
    whole = {path: path.read_bytes() for path in files_of(source)}
    for seed in range(MUTATIONS):
        for path, data in whole.items():
            path.write_bytes(data)
        spoil(source, seed)
        began = time.process_time()
        examine(source)
        assert time.process_time() - began < LONGEST_S, f"seed {seed}"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(FORMATS))
def test_any_format_forced_on_any_transcript(name: str, format_: str) -> None:
    """A format named by the user for a file of another one gives episodes or an error."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(TranscriptError):
        list(Import([lay_out(name, Path(folder))], format_).episodes())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1000, 2**40), st.integers(1, 4))
def test_spoilt_again_and_again(name: str, seed: int, times: int) -> None:
    """Sources spoilt several times over are no different."""
    with tempfile.TemporaryDirectory() as folder:
        source = lay_out(name, Path(folder))
        for i in range(times):
            spoil(source, seed + i)
        examine(source)

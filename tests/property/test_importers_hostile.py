"""Whatever stands in a transcript or a corpus, reading it ends in episodes or in one error with a place."""

import contextlib
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.errors import CorpusError, TranscriptError
from soak.facts import Message, ToolCall, episode_from_json, episode_to_json, make_episode
from soak.importers import check_corpus, load_corpus, read_transcripts, write_corpus

NAMES = (
    "role content tool_calls tool_call_id function name arguments id messages info extra response choices type text "
    "body tools functions function_call object output refusal usage message timestamp"
)
KEYS = st.sampled_from(NAMES.split())
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "text", "response", "function_call_output", "c1", "", "{"]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**25), 10**25), st.floats(), st.text(max_size=4), WORDS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["c1", "c2", None]),
            "function": st.fixed_dictionaries({"name": WORDS, "arguments": VALUES}),
        }
    ),
    max_size=3,
)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": WORDS, "content": VALUES}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": VALUES, "tool_calls": CALLS}),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.sampled_from(["c1", "c2", None])}),
        VALUES,
    ),
    max_size=8,
)


def import_and_store(data: bytes) -> None:
    """Import bytes; what comes out must be fit for a corpus and free of problems a server would refuse."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        path.write_bytes(data)
        for format_ in (None, "openai-chat", "mini-swe-agent"):
            with contextlib.suppress(TranscriptError):
                episodes = read_transcripts([path], format=format_).episodes
                write_corpus(Path(folder) / "c", episodes, replace=True)
                assert load_corpus(Path(folder) / "c").episodes == episodes
                assert [item for item in check_corpus(episodes) if item.severity == "problem"] == []


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_any_messages_become_sound_episodes_or_an_error(messages: list[object]) -> None:
    """Messages of any shape give episodes without orphan calls or results, or a `TranscriptError`."""
    import_and_store(json.dumps({"messages": messages}).encode())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Arbitrary bytes and JSON raise nothing but `TranscriptError` here and `CorpusError` as a corpus."""
    import_and_store(data)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.jsonl").write_bytes(data)
        with contextlib.suppress(CorpusError):
            load_corpus(Path(folder))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_episode_survives_its_line(data: st.DataObject) -> None:
    """Trees of messages with calls, reasoning and parts are equal after writing and reading their line."""
    call = st.builds(ToolCall, id=TEXT, name=TEXT, arguments=TEXT)
    part = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
    message = st.builds(
        Message,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.none() | TEXT | st.lists(part, max_size=2),
        reasoning=st.none() | TEXT,
        tool_calls=st.lists(call, max_size=2).map(tuple),
    )
    messages = data.draw(st.lists(message, min_size=1, max_size=6))
    parents = [data.draw(st.none() | st.integers(0, i - 1)) if i else None for i in range(len(messages))]
    episode = make_episode("e", messages, parents=parents, meta={"k": data.draw(TEXT)})
    assert episode_from_json(episode_to_json(episode)) == episode

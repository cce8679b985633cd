"""However a server cuts its bytes, the same events, chunks and answer come out."""

import json
from collections.abc import Sequence

from fakes import Answer, Call, Style, events
from hypothesis import given
from hypothesis import strategies as st

from soak.client.attempt import Stream
from soak.client.events import NotAnEventError, decode_event
from soak.client.request import Request
from soak.client.scrub import Scrub
from soak.client.sse import ServerEvent, SseParser
from soak.facts import Chunk, Deadlines, Retries, TurnKey, encode

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
CUTS = st.lists(st.integers(1, 40), max_size=60)


def recut(whole: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Return `whole` in pieces of these sizes, the rest in one."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(whole[at : at + size])
        at += size
    return [piece for piece in (*pieces, whole[at:]) if piece]


def parsed(pieces: Sequence[bytes]) -> list[ServerEvent]:
    """Return the events in the pieces."""
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Draw answers with any mixture of parts."""
    calls = draw(st.lists(st.builds(Call, TEXT, TEXT, TEXT), max_size=3))
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", None]))
    return Answer(content=draw(TEXT), reasoning=draw(TEXT), calls=tuple(calls), finish=finish)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw the bytes of whole streams in any style."""
    newline = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    style = Style(
        newline=newline,
        comments=draw(st.booleans()),
        tokens_per_chunk=draw(st.integers(1, 5)),
        token_ids=draw(st.booleans()),
        done=draw(st.booleans()),
        finish_apart=draw(st.booleans()),
        usage=draw(st.booleans()),
    )
    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return bom + b"".join(item.data for item in events(draw(answers()), style))


@given(streams(), CUTS)
def test_any_cutting_gives_the_same_events(whole: bytes, sizes: list[int]) -> None:
    """Events do not depend on where reads end, be it in UTF-8, in a line end or in the byte order mark."""
    assert parsed(recut(whole, sizes)) == parsed([whole])


@given(st.binary(max_size=300), CUTS)
def test_any_bytes_are_parsed_alike_and_without_an_error(whole: bytes, sizes: list[int]) -> None:
    """Arbitrary bytes raise nothing, and cutting them changes nothing."""
    assert parsed(recut(whole, sizes)) == parsed([whole])


@given(st.lists(st.sampled_from([b"data: a", b"data:b", b"data", b": c", b"event: e", b"", b"id: 1"]), max_size=12))
def test_events_follow_the_standard(lines: list[bytes]) -> None:
    """Against a plain reading of the WHATWG rules: data lines joined, comments skipped, a blank line dispatches."""
    expected, data, name = [], [], b""
    for line in [*lines, b""]:
        if line.startswith(b"data"):
            data.append(line[4:].removeprefix(b":").removeprefix(b" "))
        elif line.startswith(b"event"):
            name = line[7:]
        elif not line:
            if data:
                expected.append(ServerEvent(name, b"\n".join(data)))
            data, name = [], b""
    assert parsed([b"".join(line + b"\n" for line in lines)]) == expected


def folded(pieces: Sequence[bytes]) -> tuple[Stream, list[Chunk]]:
    """Return the stream after these reads, and the chunks its sink saw."""
    chunks: list[Chunk] = []
    request = Request(
        key=TurnKey(episode="e", turn=0, pass_=0, arm="a"),
        body={},
        session="e",
        deadlines=Deadlines(),
        retries=Retries(),
        max_tokens=1,
    )
    stream = Stream(request, lambda chunk: bool(chunks.append(chunk)), Scrub(api_key=None, basic=None))
    for piece in pieces:
        if stream.closed is None:
            stream.feed(piece, 1.0)
    if stream.closed is None:
        stream.end(1.0)
    return stream, chunks


@given(streams(), CUTS)
def test_any_cutting_gives_the_same_answer(whole: bytes, sizes: list[int]) -> None:
    """Chunks, text, calls, ids, usage, ending and defects are those of the uncut stream."""
    one, chunks = folded([whole])
    other, other_chunks = folded(recut(whole, sizes))
    assert chunks == other_chunks
    assert (one.closed, one.fold.ending(one.closed or "end")) == (
        other.closed,
        other.fold.ending(other.closed or "end"),
    )
    assert one.fold.tool_calls() == other.fold.tool_calls()
    assert (one.fold.token_ids, one.fold.usage, one.fold.defects) == (
        other.fold.token_ids,
        other.fold.usage,
        other.fold.defects,
    )


@given(answers(), st.integers(1, 5))
def test_the_answer_sent_is_the_answer_read(answer: Answer, size: int) -> None:
    """Content, reasoning, calls and finish reason come out as they went in, at any number of tokens a chunk."""
    items = events(answer, Style(tokens_per_chunk=size))
    stream, chunks = folded([b"".join(item.data for item in items)])
    assert "".join(chunk.content for chunk in chunks) == answer.content
    assert "".join(stream.fold.reasoning) == answer.reasoning
    assert [call.arguments for call in stream.fold.tool_calls()] == [call.arguments for call in answer.calls]
    assert stream.fold.finish_reason == answer.finish


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_data_is_an_event_or_refused(data: bytes) -> None:
    """Decoding gives an event or NotAnEventError, nothing else."""
    try:
        decode_event(data)
    except NotAnEventError:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "content", "tool_calls", "usage", "error", "index", "finish_reason", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_ends_in_an_observation(value: object) -> None:
    """An event of any JSON shape is folded or closes the stream; the observation can always be encoded."""
    data = b"data: " + json.dumps(value).encode() + b"\n\n"
    stream, _ = folded([data])
    assert encode(stream.exchange((stream.attempt(),), 0.0).observation)

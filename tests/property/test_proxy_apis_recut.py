"""However the bytes of an answer of the responses or messages API are cut, it is judged alike."""

import random

from fakes import Answer, Call, events, loop_answer, prose
from fakes.apis import DOORS, speak
from fakes.faults import Ask
from fakes.script import Script, Send
from hypothesis import given, settings
from hypothesis import strategies as st

from soak.classify import DEFAULTS
from soak.client import Scrub
from soak.facts import TurnKey, encode
from soak.proxy import Hearing, read_asked

KEY = TurnKey(episode="e", turn=0, pass_=0, arm="candidate")
ASK = Ask(body={"max_tokens": 900, "messages": []}, rng=random.Random(3))
BODIES = {
    "responses": {"input": "hello", "max_output_tokens": 900, "stream": True},
    "messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 900, "stream": True},
}
ANSWERS = {
    "good": Answer(content=prose(random.Random(1), 120), reasoning="Let me see, the é and 日本 first."),
    "calls": Answer(calls=(Call("a", '{"x": "ls"}', "c1"), Call("b", "{}", "c2")), finish="tool_calls"),
    "loop": loop_answer(ASK),
    "short": Answer(content="I'll open the file and"),
    "cut": Answer(content="half an", finish=None),
}


def stream_of(path: str, answer: Answer) -> bytes:
    """Return the bytes of a whole answer's stream, in the words of the API at `path`."""
    script = speak(path, Script([Send(item.data) for item in events(answer)]))
    return b"".join(step.data for step in script if isinstance(step, Send))


STREAMS = {
    (path.rpartition("/")[2], name): stream_of(path, answer) for path in DOORS for name, answer in ANSWERS.items()
}


def heard(door: str, reads: list[bytes]) -> Hearing:
    """Return what hears these reads as one answer."""
    asked = read_asked(door, encode(BODIES[door]))  # type: ignore[arg-type]
    hearing = Hearing(KEY, asked, DEFAULTS, Scrub(api_key=None, basic=None), lambda *_: None)
    hearing.head(200, {"content-type": "text/event-stream"})
    for number, data in enumerate(reads):
        hearing.feed(data, float(number))
    hearing.end(float(len(reads)))
    return hearing


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(STREAMS)),
    st.lists(st.integers(0, 100_000), max_size=40),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"data: [DONE]\n\n"]),
)
def test_any_cutting_is_judged_alike(which: tuple[str, str], places: list[int], newline: bytes, tail: bytes) -> None:
    """The same bytes in any reads give the same answer, ending, class and findings, and are kept."""
    door, name = which
    data = STREAMS[which].replace(b"\n", newline) + (tail if name != "cut" else b"")
    at = sorted({place % (len(data) + 1) for place in places})
    pieces = [data[i:j] for i, j in zip([0, *at], [*at, len(data)], strict=True) if i < j]
    whole, cut = heard(door, [data]), heard(door, pieces)
    one, other = whole.record(0.0, 0.0), cut.record(0.0, 0.0)
    assert one.judgement == other.judgement
    assert one.observation is not None and other.observation is not None
    fields = ("content", "reasoning", "tool_calls", "ending", "finish_reason", "usage", "defects")
    assert [getattr(one.observation, f) for f in fields] == [getattr(other.observation, f) for f in fields]
    assert one.observation.content == ANSWERS[name].content and one.observation.reasoning == ANSWERS[name].reasoning
    assert whole.raw == cut.raw == data

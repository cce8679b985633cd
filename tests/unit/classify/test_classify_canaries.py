"""Secret words in answers: another's is an error and certain, one's own is not, and neither is anything else."""

from typing import Any

from soak.classify import Context, TurnJudge, judge
from soak.facts import Canary, Chunk, Message, Observation, ToolCall, ToolCallDelta, TurnKey, Usage
from soak.plan import word_for

OWN, OTHER = word_for(1, "mine", 0), word_for(1, "theirs", 4)
OWNERS = {OWN: "mine:0", OTHER: "theirs:4"}
PROSE = "The loader reads each entry once and keeps the result, so the second call is cheap."


def seen(**fields: Any) -> Observation:
    plain: dict[str, Any] = {
        "key": TurnKey(episode="mine", turn=0, pass_=0, arm="a"),
        "started_at": 0.0,
        "ending": "complete",
        "max_tokens": 1000,
        "finish_reason": "stop",
        "usage": Usage(prompt=10, completion=30),
    }
    return Observation(**{**plain, **fields})


def context(**fields: Any) -> Context:
    return Context(canary=Canary(word=OWN, owners=OWNERS, asked=fields.pop("asked", False)), **fields)


def test_another_conversations_word_is_an_error_that_names_it() -> None:
    """The finding is of its own kind, certain, shows the place, and the reason says whose word it is."""
    found = judge(seen(content=f"{PROSE} {OTHER} {PROSE}"), context())
    assert found.class_ == "error"
    assert (found.findings[0].kind, found.findings[0].confidence) == ("contamination", 1.0)
    assert found.findings[0].onset_char == len(PROSE) + 1
    assert OTHER in found.findings[0].unit
    assert found.reason == f"the answer holds {OTHER!r}, the secret word of another conversation (theirs:4)"


def test_it_is_found_in_reasoning_and_in_the_arguments_of_a_call() -> None:
    """Wherever a word slips out, the finding says where."""
    call = ToolCall(id="1", name="bash", arguments=f'{{"command": "grep {OTHER} x"}}')
    for where, fields in (
        ("reasoning", {"content": PROSE, "reasoning": f"so {OTHER}."}),
        ("tool_arguments", {"tool_calls": (call,), "finish_reason": "tool_calls"}),
    ):
        found = judge(seen(**fields), context())
        assert [(finding.kind, finding.where) for finding in found.findings[:1]] == [("contamination", where)]


def test_ones_own_word_is_no_fault() -> None:
    """A conversation may say its own word."""
    found = judge(seen(content=f"{PROSE} My word is {OWN}."), context())
    assert (found.class_, found.findings) == ("ok", ())


def test_a_word_that_is_nobodys_is_noted_and_decides_nothing() -> None:
    """A model that garbles a word is not called contaminated."""
    found = judge(seen(content=f"{PROSE} My word is {word_for(2, 'nobody', 0)}."), context())
    assert (found.class_, [finding.kind for finding in found.findings]) == ("ok", ["canary_garbled"])


def test_recall_is_noted_where_it_was_asked_for() -> None:
    """The bare word is an ok answer to the question for it; an answer without it is noted as lost, and also ok."""
    told = Message(role="assistant", content=OWN)
    found = judge(seen(content=OWN), context(asked=True, reference=told))
    assert (found.class_, [finding.kind for finding in found.findings]) == ("ok", ["canary_recalled"])
    found = judge(seen(content="I was not told any secret word."), context(asked=True, reference=told))
    assert (found.class_, [finding.kind for finding in found.findings]) == ("ok", ["canary_lost"])


def test_without_words_nothing_is_looked_for() -> None:
    """A run that plants no words never speaks of them."""
    assert judge(seen(content=f"{PROSE} {OTHER}."), Context()).findings == ()


def test_a_word_is_noticed_in_mid_stream_once() -> None:
    """The signal comes with the chunk that completes the word, names the owner, and does not close the stream."""
    live = TurnJudge(context())
    signals = [live.push(Chunk(content=piece)) for piece in (PROSE, OTHER[:7], OTHER[7:], f" {OTHER} ", PROSE)]
    assert [signal is not None for signal in signals] == [False, False, True, False, False]
    assert signals[2] is not None
    assert (signals[2].kind, signals[2].certain) == ("contamination", False)
    assert "theirs:4" in signals[2].text


def test_a_word_in_a_calls_arguments_is_noticed_in_mid_stream() -> None:
    """Pieces of two calls that come in turns do not hide a word in one of them."""
    live = TurnJudge(context())
    pieces = [(0, OTHER[:9]), (1, "nothing here"), (0, OTHER[9:])]
    signals = [live.push(Chunk(tool_calls=(ToolCallDelta(index=at, arguments=text),))) for at, text in pieces]
    assert [signal is not None for signal in signals] == [False, False, True]

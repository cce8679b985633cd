"""Answers that a guard of the server ended as repetition, also behind gateways that say `stop`."""

import pytest
from unit.classify.turns import answer, call, judged, kinds

from soak.classify import Context, TurnJudge
from soak.classify.endings import ended_by_itself
from soak.facts import Chunk

SENTENCE = "The slice ends one row late, so the last row is read twice. "
GUARDED = [
    {"finish": "repetition", "stop_reason": "repetition_detected"},
    {"finish": "repetition"},
    {"finish": "stop", "stop_reason": "repetition_detected"},
    {"finish": "length", "stop_reason": "repetition_detected"},
]


@pytest.mark.parametrize("how", GUARDED)
def test_the_loop_is_found(how: dict[str, str]) -> None:
    """Four copies are enough where the guard ended the answer, and the finding says where they begin."""
    judgement = judged("I read the file.\n" + SENTENCE * 5, **how)
    assert judgement.class_ == "garbage_loop"
    assert kinds(judgement) == ["exact_loop"]
    assert judgement.findings[0].onset_char <= 17


@pytest.mark.parametrize("how", GUARDED)
@pytest.mark.parametrize("content", ["", "Checking.", "ok " * 4, "0, 0, 0, 0, 0, 0"])
def test_the_guard_is_believed(how: dict[str, str], content: str) -> None:
    """Where no rule sees a loop the guard's word stands: such an answer is cut off, so it is never ok."""
    judgement = judged(content, **how)
    assert judgement.class_ == "garbage_loop"
    assert kinds(judgement)[0] == "server_guard"


@pytest.mark.parametrize("how", GUARDED)
def test_cut_arguments_are_the_guards_doing(how: dict[str, str]) -> None:
    """Arguments that the guard cut are garbage, not an error of the call."""
    arguments = '{"cmd": "' + "cd /src && make test && " * 9
    judgement = judged("", tool_calls=(call(arguments),), **how)
    assert judgement.class_ == "garbage_loop"
    assert "tool_arguments_unparsable" not in kinds(judgement)[:1]


@pytest.mark.parametrize("stop_reason", [None, "</s>", 151645, "repeat"])
def test_other_stop_reasons_are_normal(stop_reason: str | int | None) -> None:
    """A stop word or a stop token is no guard."""
    observation = answer("The test passes.", "stop", stop_reason=stop_reason)
    assert ended_by_itself(observation)
    assert TurnJudge(Context()).finish(observation).class_ == "ok"


def test_explained_repetition_that_the_guard_ended() -> None:
    """What the prompt holds as well was no loop, but the answer is cut all the same; the note says both."""
    context = Context(prompt_text="Copy this list:\n" + SENTENCE * 12)
    judgement = judged(SENTENCE * 6, "repetition", context)
    assert judgement.class_ == "garbage_loop"
    assert set(kinds(judgement)) == {"server_guard", "explained_repetition"}


def test_the_same_live() -> None:
    """The judge that saw the stream says what the one says that did not."""
    observation = answer(SENTENCE * 12, "stop", stop_reason="repetition_detected")
    live = TurnJudge(Context())
    for _ in range(12):
        live.push(Chunk(content=SENTENCE))
    assert live.finish(observation) == TurnJudge(Context()).finish(observation)

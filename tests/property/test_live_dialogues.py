"""Whatever a model answers, its live history stays one that servers take, and comes out the same again."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from soak.classify import Context, is_tool_name, judge
from soak.facts import ConversationEnd, Message, Node, Observation, Record, ToolCall, TurnKey
from soak.importers import load_corpus
from soak.plan import Conversation
from soak.replay import Asked, PastTurn
from soak.replay.live import Dialogue
from soak.replay.matching import Matcher
from soak.replay.script import Failures, Script

EPISODES = load_corpus(Path(__file__).resolve().parents[2] / "transcripts" / "smoke").episodes
SCRIPTS = [Script(episode) for episode in EPISODES]
FAILURES = Failures(SCRIPTS)
RECORDED = [call for script in SCRIPTS for call in script.calls]

text = st.text(max_size=60) | st.sampled_from(["", "Done.", "<tool_call>", '<tool_call>{"name": "bash"}', "\ud800"])
arguments = st.sampled_from([call.text for call in RECORDED]) | text | st.just('{"command": "ls"}') | st.just("{}")
calls = st.builds(
    ToolCall,
    id=st.sampled_from(["", "a", "b", "call-1-0", "call-1-1", "call-2-0"]),
    name=st.sampled_from(["bash", "", "x"]) | text,
    arguments=arguments,
)
answers = st.builds(
    dict,
    content=text,
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    ending=st.sampled_from(["complete"] * 8 + ["no_end_marker", "reset", "cut", "deadline_gap"]),
    finish_reason=st.sampled_from(["stop", "tool_calls", "length"]),
)


class Hall:
    """A floor on which prepared answers are given; it keeps what was asked and how the conversation ended."""

    def __init__(self, given_: Sequence[dict[str, object]]) -> None:
        self._given = list(given_)
        self.asked: list[Asked] = []
        self.ended: ConversationEnd | None = None
        self.chain: tuple[Node, ...] = ()

    def key(self, arm: str, turn: int) -> TurnKey:
        return TurnKey(episode="e", turn=turn, pass_=0, arm=arm)

    def past(self, arm: str, turn: int) -> PastTurn | None:
        return None

    async def ask(self, arm: str, turn: int, asked: Asked) -> Record | None:
        if turn >= len(self._given):
            return None
        self.asked.append(asked)
        key = self.key(arm, turn)
        seen = Observation(key=key, started_at=0.0, max_tokens=100, **self._given[turn])  # type: ignore[arg-type]
        return Record(key=key, outcome="finished", at=0.0, observation=seen, judgement=judge(seen, Context()))

    def end(self, end: ConversationEnd, asked: Asked | None = None, more: Sequence[Node] = ()) -> None:
        assert self.ended is None
        assert asked is not None
        self.ended, self.chain = end, (*asked.chain, *more)


def converse(script: Script, given_: Sequence[dict[str, object]], *, text_mode: bool) -> Hall:
    """Carry one conversation on with these answers until it is over or they are used up."""
    hall = Hall(given_)
    episode = script.episode
    conversation = Conversation(episode=episode, pass_=0, ordinal=0, turns=episode.turns, turn_limit=9)
    dialogue = Dialogue(
        "arm", conversation, script, Matcher(script, FAILURES, 0.9), text_mode=text_mode, at_limit="max_turns"
    )

    async def all_turns() -> None:
        while await dialogue.go_on(hall):  # type: ignore[arg-type]
            pass

    asyncio.run(all_turns())
    return hall


def assert_acceptable(messages: Sequence[Message], *, text_mode: bool) -> None:
    """Each call has an id of its own, an object as arguments, and exactly one result, before the next answer."""
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(ids) == len(set(ids)) and "" not in ids
    assert all(is_tool_name(call.name) for message in messages for call in message.tool_calls)
    assert not (text_mode and ids)
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool" and not text_mode:
            assert message.tool_call_id == waiting.pop(0)
        elif not text_mode:
            assert waiting == []
        waiting += [call.id for call in message.tool_calls]
        assert all(isinstance(json.loads(call.arguments), dict) for call in message.tool_calls)
        str(message.content).encode()
    assert waiting == []


@settings(max_examples=100, deadline=None)
@given(script=st.sampled_from(SCRIPTS), given_=st.lists(answers, min_size=1, max_size=10), text_mode=st.booleans())
def test_any_answers_make_a_history_that_servers_take(
    script: Script, given_: list[dict[str, object]], text_mode: bool
) -> None:
    """Hostile names, ids, arguments, endings, texts: each prefix is well-formed, and equal answers give equal ones."""
    hall = converse(script, given_, text_mode=text_mode)
    for asked in hall.asked:
        assert_acceptable(asked.messages, text_mode=text_mode)
    assert len(hall.asked) <= 9
    if hall.ended is not None:
        assert hall.ended.turns == len(hall.asked)
        assert hall.ended.last == hall.chain[-1].digest
        assert_acceptable([node.message for node in hall.chain], text_mode=text_mode)
    again = converse(script, given_, text_mode=text_mode)
    assert [asked.digest for asked in again.asked] == [asked.digest for asked in hall.asked]
    assert again.ended == hall.ended

"""Contexts that are not append-only: what a conversation becomes when its history changes under it."""

from typing import Any

from soak.facts import Episode, Message, ToolCall, text_of
from soak.importers.assembly import Thread
from soak.importers.corpus import check_episode
from soak.importers.messages import Read
from soak.importers.requests import Conversations, Request
from soak.importers.tally import Tally


def say(role: Any, text: str, **more: Any) -> Read:
    """Return a message."""
    return Read(message=Message(role=role, content=text), **more)


def finished(thread: Thread) -> tuple[Episode, Tally]:
    """Return the episode of a thread, which must be one that a corpus takes."""
    tally = Tally(source="s")
    episode = thread.finish(id_="e", tools=(), meta={}, tally=tally)
    assert episode is not None
    assert check_episode(episode) is None
    return episode, tally


def sent(episode: Episode) -> list[str]:
    """Return what is sent at each turn, and the recorded answer."""
    told = []
    for turn in episode.turns:
        answer = episode.answer(turn)
        prefix = " ".join(text_of(message.content) for message in episode.prefix(turn))
        told.append(f"{prefix} -> {'?' if answer is None else text_of(answer.content)}")
    return told


SYSTEM, TASK = say("system", "S"), say("user", "T")


def test_contexts_that_extend_each_other_are_one_chain() -> None:
    """Each request is a turn whose answer is the next request's history, with the usage the request knew."""
    thread = Thread()
    thread.extend([SYSTEM, TASK], asked=say("assistant", "", completion_tokens=3, finish_reason="stop"))
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "b")], wait_s=2.0)
    episode, _ = finished(thread)
    assert sent(episode) == ["S T -> a", "S T a b -> ?"]
    assert [node.parent for node in episode.nodes] == [None, 0, 1, 2]
    assert [turn.completion_tokens for turn in episode.turns] == [3, None]
    assert [turn.wait_s for turn in episode.turns] == [None, 2.0]
    assert episode.meta["finish_reasons"] == ["stop", None]


def test_message_that_is_gone_from_the_next_request_stays_with_its_turn() -> None:
    """A status line sent once is in the prefix of its own turn only, and is counted apart."""
    thread = Thread()
    thread.extend([SYSTEM, TASK, say("user", "1/9")])
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "b"), say("user", "2/9")])
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "b"), say("assistant", "c"), say("user", "3/9")])
    episode, tally = finished(thread)
    assert sent(episode) == ["S T 1/9 -> a", "S T a b 2/9 -> c", "S T a b c 3/9 -> ?"]
    report = tally.report()
    assert (report.tails, report.messages) == (3, 5)


def test_old_results_that_were_elided_keep_both_versions() -> None:
    """Where an old message changed, the turns before it saw the old one and the turns after it the new one."""
    thread = Thread()
    thread.extend([SYSTEM, TASK])
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "long")])
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "[gone]"), say("assistant", "b"), say("user", "c")])
    episode, tally = finished(thread)
    assert sent(episode) == ["S T -> a", "S T a long -> b", "S T a [gone] b c -> ?"]
    assert sum(node.message.content == "b" for node in episode.nodes) == 2
    assert tally.report().roles["assistant"] == 2


def test_summary_in_place_of_the_history_begins_afresh() -> None:
    """After a compaction nothing is asked at the end of the old context, and the new one does not contain it."""
    thread = Thread()
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "b")], ends=False)
    thread.extend([SYSTEM, say("user", "so far"), say("assistant", "c"), say("user", "d")])
    episode, _ = finished(thread)
    assert sent(episode) == ["S T -> a", "S so far -> c", "S so far c d -> ?"]


def test_answers_kept_in_a_new_context_are_no_turns_again() -> None:
    """What a new context has from the old one is context, whoever said it."""
    thread = Thread()
    thread.extend([SYSTEM, TASK, say("assistant", "a"), say("user", "b"), say("assistant", "c")], ends=False)
    thread.extend([SYSTEM, say("user", "b"), say("assistant", "c"), say("user", "d"), say("assistant", "e")])
    episode, tally = finished(thread)
    assert sent(episode) == ["S T -> a", "S T a b -> c", "S b c d -> e"]
    assert tally.report().roles["assistant"] == 3


def test_calls_are_answered_on_every_branch() -> None:
    """A call without its result gets a placeholder in each context that passes over it, counted where it is new."""
    call = Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments="{}"),))
    thread = Thread()
    thread.extend([TASK, Read(message=call), say("user", "b"), say("assistant", "c")])
    thread.extend([TASK, Read(message=call), say("user", "x"), say("assistant", "d")])
    episode, tally = finished(thread)
    assert tally.repaired == {"a call without a result, answered by a placeholder": 1}
    assert [len(episode.prefix(turn)) for turn in episode.turns] == [1, 4, 4]


def test_conversation_beyond_bounds_is_dropped_and_counted() -> None:
    """A thread of too many messages gives no episode, and its text is counted as dropped."""
    thread = Thread()
    thread.extend([TASK, say("assistant", "a")])
    thread.extend([say("user", "x")] * 20_001)
    tally = Tally(source="s")
    assert thread.finish(id_="e", tools=(), meta={}, tally=tally) is None
    assert tally.dropped == {"a conversation of more than 20000 messages": 1}
    assert tally.dropped_characters == 2


# -- requests to conversations -------------------------------------------------------------------------------------


def merged(*requests: Request) -> tuple[list[Episode], Tally]:
    """Return the episodes of requests in order."""
    tally = Tally(source="s")
    conversations = Conversations(tally)
    episodes = [episode for request in requests for episode in conversations.add(request)]
    episodes += conversations.finish()
    assert [check_episode(episode) for episode in episodes] == [None] * len(episodes)
    return episodes, tally


def raw(*said: str) -> list[dict[str, str]]:
    """Return messages spelt as "role text"; roles by first letter."""
    names = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": names[one[0]], "content": one[2:]} for one in said]


def asked(*said: str, answer: str | None = None, key: str | None = None, **more: Any) -> Request:
    """Return a request."""
    made = None if answer is None else {"role": "assistant", "content": answer}
    return Request(messages=raw(*said), answer=made, id=more.pop("id", "r"), key=key, **more)


def test_requests_that_share_only_a_system_prompt_are_apart() -> None:
    """Many tasks with one system prompt are as many conversations."""
    episodes, _ = merged(asked("s S", "u one"), asked("s S", "u two"), asked("s S", "u one", "a x", "u y"))
    assert [sent(episode) for episode in episodes] == [["S one -> x", "S one x y -> ?"], ["S two -> ?"]]


def test_samples_of_one_prompt_are_apart() -> None:
    """Two answers to the same prompt are two conversations, not one that goes on."""
    episodes, _ = merged(asked("u one", "a x"), asked("u one", "a y"))
    assert [sent(episode) for episode in episodes] == [["one -> x"], ["one -> y"]]


def test_interleaved_conversations_are_each_followed() -> None:
    """Requests of two agents in turns are two conversations."""
    episodes, _ = merged(
        asked("s S", "u one"),
        asked("s S", "u two"),
        asked("s S", "u one", "a p", "u q"),
        asked("s S", "u two", "a r", "u t"),
    )
    assert [len(episode.turns) for episode in episodes] == [2, 2]


def test_different_tools_are_different_conversations() -> None:
    """A request with other tools does not go on with one that has the same messages."""
    tool = {"type": "function", "function": {"name": "f"}}
    episodes, _ = merged(asked("u one"), asked("u one", "a x", "u y", tools=(tool,)))
    assert len(episodes) == 2


def test_answer_of_the_record_is_kept_where_the_history_has_another() -> None:
    """The history's version of an answer counts; where the history has none, the record's stays."""
    episodes, _ = merged(asked("u one", answer="x"), asked("u one", "a x", "u two", answer="y"))
    assert sent(episodes[0]) == ["one -> x", "one x two -> y"]
    episodes, _ = merged(
        asked("u one", answer="x", key="k"), asked("u one", "u never mind", "u two", answer="y", key="k")
    )
    assert sent(episodes[0]) == ["one -> x", "one never mind two -> y"]


def test_request_sent_twice_is_one_turn() -> None:
    """A retry is counted and is no turn; an answer that only it has is taken."""
    episodes, tally = merged(asked("u one"), asked("u one", answer="x"))
    assert sent(episodes[0]) == ["one -> x"]
    assert tally.dropped == {"a conversation that was read before": 1}


def test_rewritten_history_of_a_named_conversation_is_followed() -> None:
    """Requests that say which conversation they are of stay together though their history was cut."""
    episodes, _ = merged(
        asked("s S", "u one", key="k"),
        asked("s S", "u one", "a x", "u two", key="k"),
        asked("s S", "u summary", "u three", key="k"),
        asked("s S", "u one", key="other"),
    )
    assert [sent(episode) for episode in episodes] == [
        ["S one -> x", "S one x two -> ?", "S summary three -> ?"],
        ["S one -> ?"],
    ]

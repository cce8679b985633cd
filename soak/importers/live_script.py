"""
Scripts of what a user says, turn by turn, without any answer: the replayed model's own answers carry them on.

Their turns have no recorded answer, and `meta` says `live_history`.
"""

from typing import Any

from soak.facts import Episode, Message, Turn, characters, make_episode, text_of
from soak.importers.assembly import MESSAGES_MAX, STRAY
from soak.importers.messages import read_message
from soak.importers.tally import Tally
from soak.importers.values import listing

EMPTY = "a turn in which nothing is said"


def scripted(
    turns: list[Any], *, id_: str, meta: dict[str, Any], tokens: list[int | None] | None, tally: Tally
) -> Episode | None:
    """Return the episode of a script, whose `turns` are lists of messages; None, counted, if nothing is said."""
    messages: list[Message] = []
    made: list[Turn] = []
    told: list[int | None] = []
    for k, turn in enumerate(turns):
        read = [read_message(raw, len(messages), tally) for raw in listing(turn)]
        said = [message for message in read if message is not None and message.role != "assistant"]
        for message in (one for one in read if one is not None and one.role == "assistant"):
            tally.drop("an answer in a script", message)
        if not said:
            tally.drop(EMPTY)
            continue
        messages += said
        made.append(Turn(index=len(made), prefix=len(messages) - 1))
        told.append(tokens[k] if tokens is not None else None)
    for i, message in enumerate(messages):
        tally.find(message)
        messages[i] = _without_call(message, tally)
    if not made or len(messages) > MESSAGES_MAX:
        tally.drop("a script without a turn" if not made else f"a script of more than {MESSAGES_MAX} messages")
        tally.dropped_characters += sum(characters(message) for message in messages)
        return None
    more = {"prompt_tokens": told} if any(value is not None for value in told) else {}
    return make_episode(id_, messages, turns=made, meta={"live_history": True, **meta, **more})


def _without_call(message: Message, tally: Tally) -> Message:
    """Return a result as user text: the call it answers is one the replayed model may not make."""
    if message.role != "tool":
        return message
    tally.repair("a result in a script, turned into user text")
    tally.added_characters += len(STRAY)
    return Message(role="user", content=STRAY + text_of(message.content))

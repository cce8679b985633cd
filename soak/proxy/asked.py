"""The body of a request that is passed on → what was asked, as far as history and classifiers need it."""

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from soak.classify import prompt_text_of
from soak.facts import Episode, Message, digest_of, make_episode
from soak.importers.messages import read_message
from soak.importers.reading import UnreadableError, parse_json
from soak.importers.requests import PARAMETERS, tools_of
from soak.importers.tally import Tally
from soak.importers.values import chosen
from soak.proxy import asked_messages, asked_responses
from soak.proxy.answered import Answered
from soak.proxy.unreadable import UnreadableAskError

Door = Literal["chat/completions", "completions", "responses", "messages"]

_DOORS: dict[str, Door] = {door: door for door in get_args(Door)}
_API_PATH = re.compile(rf"(?:/[^?#]*)?/v\d+/(?P<door>{'|'.join(_DOORS)})/?(?:\?.*)?")
_TOLD_IDS: tuple[Door, ...] = ("chat/completions", "completions")  # where vLLM tells token ids if it is asked to
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_NOT_THE_QUESTION = frozenset({"model", "return_token_ids"})
_MESSAGES_MAX = 20_000
_SEED_MAX = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    One request: its messages chained by hash as an episode without turns, and what else a turn is known by.

    `max_tokens` is 0 where the request sets no limit. `request` is the digest of the body without the model's name.
    `left_out` counts parts of messages that an episode cannot hold, by reason. `has_token_ids` says whether the client
    itself asked for them. A later request may go on from the answer by its id alone where `carried` are the messages
    that it then begins with; `follows` is the conversation that this one goes on with by such an id.
    """

    door: Door
    chain: Episode
    max_tokens: int
    seed: int
    request: str
    parameters: dict[str, Any]
    left_out: dict[str, int]
    has_token_ids: bool
    carried: tuple[Message, ...] | None = None
    follows: str | None = None

    @property
    def prefix(self) -> str:
        """The digest of the last message."""
        return self.chain.nodes[-1].digest

    @property
    def prompt_text(self) -> str:
        """The text of what others than the model said, as `check` puts it together from the history."""
        return prompt_text_of((node.message for node in self.chain.nodes), own_answers=True)


def door_of(method: str, path: str) -> Door | None:
    """Return which door a request goes to if its turns can be judged, else None."""
    match = _API_PATH.fullmatch(path) if method == "POST" else None
    return None if match is None else _DOORS[match["door"]]


def read_asked(door: Door, body: bytes, answered: Answered | None = None) -> Asked:
    """
    Return what a request asks; raises `UnreadableAskError` where it is not one question in words.

    `answered` are the responses that a request may go on from by their ids.
    """
    try:
        value, _ = parse_json(body, "the request")
    except UnreadableError as error:
        raise UnreadableAskError(f"the body {error.why}"[:200]) from None
    if not isinstance(value, dict):
        raise UnreadableAskError("the body is no JSON object")
    tally = Tally(source="")
    seen = _seen(door, value, tally, answered or Answered())
    return Asked(
        door=door,
        chain=make_episode("", seen.messages, tools=seen.tools, turns=[]),
        max_tokens=next((limit for name in _LIMITS if (limit := _count(value.get(name)))), 0),
        seed=_count(value.get("seed")) or 0,
        request=digest_of({name: item for name, item in value.items() if name not in _NOT_THE_QUESTION}),
        parameters=chosen(value, *PARAMETERS),
        left_out=dict(tally.dropped),
        has_token_ids="return_token_ids" in value,
        carried=seen.carried,
        follows=seen.follows,
    )


class _Seen(NamedTuple):
    """What the model sees, and how it hangs together with other requests."""

    messages: list[Message]
    tools: tuple[dict[str, Any], ...] = ()
    carried: tuple[Message, ...] | None = None
    follows: str | None = None


def _seen(door: Door, value: dict[str, Any], tally: Tally, answered: Answered) -> _Seen:
    if door == "completions":
        return _Seen([_prompt(value)])
    if door == "chat/completions":
        return _Seen(_messages(value, tally), tools_of(value.get("tools"), value.get("functions"), tally))
    if door == "messages":
        messages = asked_messages.messages_in(value, tally, _MESSAGES_MAX)
        return _Seen(messages, asked_messages.tools_in(value, tally))
    return _of_responses(value, tally, answered)


def _of_responses(value: dict[str, Any], tally: Tally, answered: Answered) -> _Seen:
    """Return what a request for a response has the model see: also what came before the response it goes on from."""
    before: tuple[Message, ...] = ()
    follows = None
    if value.get("previous_response_id"):
        known = answered.get(value["previous_response_id"])
        if known is None:
            raise UnreadableAskError("it goes on from a response that was not heard, or long ago")
        before, follows = known.messages, known.episode
    messages = [*before, *asked_responses.messages_in(value, tally, _MESSAGES_MAX)]
    carried = None if value.get("store") is False else tuple(messages)
    head = asked_responses.instructions_in(value)
    return _Seen(head + messages, asked_responses.tools_in(value, tally), carried, follows)


def _messages(value: dict[str, Any], tally: Tally) -> list[Message]:
    given = value.get("messages")
    if not isinstance(given, list) or not given:
        raise UnreadableAskError("the body has no messages")
    if len(given) > _MESSAGES_MAX:
        raise UnreadableAskError(f"the body has more than {_MESSAGES_MAX} messages")
    read = [read_message(message, i, tally) for i, message in enumerate(given)]
    messages = [message for message in read if message is not None]
    if not messages:
        raise UnreadableAskError("none of its messages can be read")
    return messages


def _prompt(value: dict[str, Any]) -> Message:
    """Return the prompt of the completions API as a message; only one that is plain text can be judged."""
    prompt = value.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise UnreadableAskError("the prompt is not one text")
    if value.get("suffix") or value.get("echo"):
        raise UnreadableAskError("the answer is to be an insertion or to repeat the prompt")
    return Message(role="user", content=prompt)


def _count(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _SEED_MAX
    return value if known else None


def with_token_ids(body: bytes, asked: Asked) -> bytes:
    """Return the body with `return_token_ids` put before all else, where its API knows that; all else as it was."""
    if asked.has_token_ids or asked.door not in _TOLD_IDS:
        return body
    head, brace, rest = body.partition(b"{")
    return head + brace + b'"return_token_ids":true,' + rest

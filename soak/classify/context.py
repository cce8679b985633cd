"""What an answer may legitimately repeat, or must fit."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from soak.facts import Canary, Message, text_of


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is known about the turn besides its answer; everything is optional, and more of it means better judgements.

    `prompt_text` is the text of the prefix or its tail, `tools` the OpenAI schemas offered, `reference` the recorded
    answer. `tool_mode` is `text` where calls are written into the content and not parsed by the server.
    `canary`: the conversation's secret word and those of the others, where the run plants them.
    """

    prompt_text: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    reference: Message | None = None
    reference_tokens: int | None = None
    max_tokens: int | None = None
    tool_mode: Literal["native", "text"] = "native"
    canary: Canary | None = None


def prompt_text_of(messages: Iterable[Message], *, own_answers: bool) -> str:
    """
    Return the text of a prefix that an answer may legitimately repeat.

    `own_answers`: the answers in it are those of the model that is judged, as in every mode but recorded replay. They
    are left out: garbage that it wrote itself must not excuse the same garbage in its next turn.
    """
    return "\n".join(
        text_of(message.content) for message in messages if not (own_answers and message.role == "assistant")
    )

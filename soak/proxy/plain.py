"""Messages of APIs for which text and a list of one text are the same."""

from typing import Any

import msgspec

from soak.facts import Message
from soak.facts.episode import Content

# What a chat can carry as well: a message with parts of other kinds cannot be asked again as one.
_IN_A_CHAT = ("text", "image_url")


def with_content(message: Message, content: Content) -> Message:
    """Return `message` with `content`, a list of one text as that text, so that equal prompts have equal digests."""
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        content = content[0]["text"]
    return msgspec.structs.replace(message, content=content)


def foreign_part(message: Message) -> str | None:
    """Return the type of a part of `message` that a chat cannot carry, None where there is none."""
    parts: list[dict[str, Any]] = message.content if isinstance(message.content, list) else []
    return next((str(part.get("type")) for part in parts if part.get("type") not in _IN_A_CHAT), None)

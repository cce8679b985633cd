"""One server-sent event of an answer, after parsing. A chunk is not a token: under speculation it carries several."""

import msgspec


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the tool call with this `index` in the answer; fields are None where the chunk does not carry them."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """The generated text in one event, with its token ids where the server tells them."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    refusal: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None

    @property
    def has_text(self) -> bool:
        """Whether it carries anything the model generated (what TTFT waits for)."""
        return bool(self.content or self.reasoning or self.tool_calls or self.refusal)

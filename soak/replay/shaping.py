"""
What a turn of the transcript asks once secret words, siblings and padding are put into its prefix.

A turn keeps its recorded answer as reference: what is added is no part of the task. What is added to one message stays
in all later prefixes of the conversation, as it would in a real one, so that a turn goes on from the very prompt of the
turn before it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from soak.facts import Canary, Episode, Message, Scenario, Turn, TurnKey, chained
from soak.facts.canary import told
from soak.plan import Conversation, aside_for, asks_for_word, filler, marked_at, offset_for, word_for
from soak.replay.asked import Asked

BLOCK_TOKENS = 16
"""vLLM's usual block, where neither the scenario nor the engine names one."""

_TRIES = 6


class Scale(Protocol):
    """Weighs prompts: `Floor` does."""

    @property
    def block_tokens(self) -> int | None:
        """The engine's own block size, as far as it is known."""
        ...

    async def length(self, asked: Asked) -> int | None:
        """Return the tokens of a prompt; None where the server cannot count."""
        ...


class Shaper:
    """
    Shapes the turns of one run; `begun` are turns that earlier sittings started.

    After a run `padded`, `missed` and `uncounted` tell how many prompts ended where they were to end, near it, and
    how many could not be counted.
    """

    def __init__(self, scenario: Scenario, begun: Iterable[TurnKey] = ()) -> None:
        self.scenario = scenario
        self.owners: dict[str, str] = {}
        self.padded = self.missed = self.uncounted = 0
        if scenario.canaries:
            for episode, pass_ in {(key.episode, key.pass_) for key in begun}:
                self.owners[word_for(scenario.seed, episode, pass_)] = f"{episode}:{pass_}"

    def begin(self, conversation: Conversation, scale: Scale) -> "Trip":
        """Return what shapes the turns of one conversation; its word is known from now on."""
        if conversation.word is not None:
            self.owners[conversation.word] = f"{conversation.episode.id}:{conversation.pass_}"
        return Trip(self, conversation, scale)

    def said(self) -> str | None:
        """Return what became of the padding, as a sentence; None where nothing was to be padded."""
        whole = self.padded + self.missed + self.uncounted
        if self.scenario.load.staggered is None or not whole:
            return None
        if not self.padded + self.missed:
            return f"staggered: none of {whole:,} prompts was padded, for the server cannot count their tokens"
        rest = f", {self.uncounted:,} could not be counted" if self.uncounted else ""
        return f"staggered: {self.padded:,} of {whole:,} prompts end at their place beside a block's border{rest}"


class Trip:
    """One conversation's turns as they are asked, the same for every arm."""

    def __init__(self, shaper: Shaper, conversation: Conversation, scale: Scale) -> None:
        self._shaper = shaper
        self._scenario = shaper.scenario
        self._conversation = conversation
        self._scale = scale
        self._pads: dict[int, str] = {}
        self._last: tuple[int, Asked] | None = None

    async def asked(self, turn: Turn) -> Asked:
        """Return what this turn asks."""
        if self._last is None or self._last[0] != turn.index:
            self._last = turn.index, await self._shaped(turn)
        return self._last[1]

    async def _shaped(self, turn: Turn) -> Asked:
        conversation, staggered = self._conversation, self._scenario.load.staggered
        marked = marked_at(self._scenario, conversation, turn.index)
        if conversation.word is None and conversation.branch is None and staggered is None:
            return replace(Asked.recorded(conversation.episode, turn), abort_after=marked)
        if staggered is not None:
            await self._pad(turn)
        return self._asked(turn, marked)

    def _asked(self, turn: Turn, marked: int | None = None) -> Asked:
        """Return the turn with all that has been put into its prefix so far."""
        episode = self._conversation.episode
        chain = chained((), self._messages(_line(episode, turn.prefix)), episode.tools)
        answer = self._expected(turn)
        return Asked(
            chain=chain,
            tools=episode.tools,
            answer=None if answer is None else chained(chain, (answer,))[-1],
            answer_tokens=turn.completion_tokens,
            canary=self._canary(turn),
            abort_after=marked,
        )

    def _messages(self, line: Sequence[int]) -> list[Message]:
        nodes = self._conversation.episode.nodes
        mark, text = self._mark(line)
        return [_with_text(nodes[at].message, (text if at == mark else "") + self._pads.get(at, "")) for at in line]

    def _mark(self, line: Sequence[int]) -> tuple[int, str]:
        """Return the node that the words of this conversation are put behind, and these words."""
        one = self._conversation
        word = "" if one.word is None else told(one.word)
        if one.branch is None:
            return line[0], word
        aside = aside_for(self._scenario.seed, one.episode.id, one.sibling) if one.sibling else ""
        shared = one.episode.turns[one.branch].prefix
        return shared if shared in line else line[-1], aside + word

    def _expected(self, turn: Turn) -> Message | None:
        one = self._conversation
        if one.word is not None and asks_for_word(one.episode, turn):
            return Message(role="assistant", content=one.word)
        return one.episode.answer(turn)

    def _canary(self, turn: Turn) -> Canary | None:
        one = self._conversation
        if one.word is None:
            return None
        return Canary(word=one.word, owners=self._shaper.owners, asked=asks_for_word(one.episode, turn))

    # -- padding -----------------------------------------------------------------------------------------------

    async def _pad(self, turn: Turn) -> None:
        """Pad what the model sees at this turn and at every turn before it that leads here, the earliest first."""
        episode, line = self._conversation.episode, set(_line(self._conversation.episode, turn.prefix))
        for before in episode.turns[self._conversation.branch or 0 : turn.index + 1]:
            if before.prefix in line and before.prefix not in self._pads:
                self._pads[before.prefix] = await self._padding(before)

    async def _padding(self, turn: Turn) -> str:
        """Return the words that bring the turn's prompt to its place; as near as it gets after some tries."""
        one, staggered, seed = self._conversation, self._scenario.load.staggered, self._scenario.seed
        assert staggered is not None
        block = staggered.block_tokens or self._scale.block_tokens or BLOCK_TOKENS
        place = offset_for(staggered, seed, one.episode.id, turn.index, one.pass_)
        words, text = 0, ""
        for _ in range(_TRIES):
            self._pads[turn.prefix] = text = _words(seed, f"{one.episode.id}:{turn.index}", words)
            length = await self._scale.length(self._asked(turn))
            if length is None:
                self._shaper.uncounted += 1
                return ""
            missing = (place - length) % block
            if not missing:
                self._shaper.padded += 1
                return text
            shorter = words + missing - block
            words = shorter if missing > block // 2 and shorter > 0 else words + missing
        self._shaper.missed += 1
        return text


def _line(episode: Episode, at: int) -> list[int]:
    """Return the nodes from the first one to `at`."""
    line = [at]
    while (parent := episode.nodes[line[-1]].parent) is not None:
        line.append(parent)
    return line[::-1]


def _words(seed: int, name: str, count: int) -> str:
    return "\n\n" + " ".join(filler(seed, name, count)) if count else ""


def _with_text(message: Message, text: str) -> Message:
    """Return a message with `text` behind its own."""
    if not text:
        return message
    content = message.content
    if isinstance(content, list):
        return msgspec.structs.replace(message, content=[*content, {"type": "text", "text": text}])
    return msgspec.structs.replace(message, content=(content or "") + text)

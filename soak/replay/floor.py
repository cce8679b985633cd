"""
What whoever carries a conversation on may do with it: ask an arm a turn, pause, say that it is over.

The engine (`engine.py`) decides when a conversation begins and hands its floor to the run's carrier: `Recorded` sends
the prefixes of the transcript; others make the next prefix from what came back. All go through one `TurnRunner`, so
that each turn is fitted, recorded, judged and ended alike.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from soak.facts import CONVERSATION_ENDED, ConversationEnd, ConversationKey, Event, Node, Record, TurnKey
from soak.plan import Conversation, seed_for
from soak.replay.arm import Arm
from soak.replay.asked import Asked
from soak.replay.crowd import Crowd
from soak.replay.ports import Clock, Ledger, Listener
from soak.replay.switch import Switch
from soak.replay.turn import Job, TurnRunner


class PastTurn(NamedTuple):
    """A turn that an earlier sitting finished or skipped: the digest of the prefix it had (None: skipped), its end."""

    prefix: str | None
    record: Record


@dataclass(frozen=True, kw_only=True)
class Stage:
    """
    What all conversations of a sitting share.

    `done`, `over`: turns and conversations that earlier sittings completed; `past` reads such a turn again. `after` is
    told each end of a turn. `crowd` knows who waits for whom.
    """

    arms: Mapping[str, Arm]
    runner: TurnRunner
    ledger: Ledger
    listener: Listener
    clock: Clock
    switch: Switch
    seed: int
    starts: Mapping[TurnKey, int]
    done: frozenset[TurnKey]
    over: frozenset[ConversationKey]
    past: Callable[[TurnKey], PastTurn | None]
    after: Callable[[Record], None]
    crowd: Crowd


class Floor:
    """One conversation in progress, on all arms. Methods may be awaited from several tasks, for different arms."""

    def __init__(self, conversation: Conversation, stage: Stage) -> None:
        self.conversation = conversation
        self._stage = stage

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms' names."""
        return tuple(self._stage.arms)

    @property
    def draining(self) -> bool:
        """Whether no new turn may be asked: the carrier returns as soon as its turns in flight have ended."""
        return self._stage.switch.draining

    def tool_mode(self, arm: str) -> str:
        """Return how this arm is sent tools and sends calls: native or text."""
        return self._stage.arms[arm].tool_mode

    async def pause(self, seconds: float) -> bool:
        """Wait; False if the run drains first."""
        return await self.unless_draining(self._stage.clock.sleep(seconds))

    async def unless_draining(self, wait: Awaitable[object]) -> bool:
        """Await `wait`, cancelling it when draining begins; return whether it came to its end."""
        return await self._stage.switch.unless_draining(wait)

    async def turn_begins(self) -> bool:
        """Wait while the load pauses; False if the run drains first. Else `turn_ends` must follow, whatever happens."""
        return await self._stage.crowd.turn_begins()

    def turn_ends(self) -> None:
        """The turn that has begun is over on every arm."""
        self._stage.crowd.turn_ends()

    async def together(self, arm: str) -> None:
        """Wait for the turns that this arm is to be sent at the same moment."""
        await self._stage.crowd.together(arm)

    @property
    def block_tokens(self) -> int | None:
        """The block of the first arm's cache, as far as it is known."""
        return self._first.block_tokens

    async def length(self, asked: Asked) -> int | None:
        """Return the tokens of a prompt, as the first arm counts them; None where it cannot."""
        return await self._stage.runner.length(self._first, asked, self.conversation.salt)

    @property
    def _first(self) -> Arm:
        return next(iter(self._stage.arms.values()))

    def key(self, arm: str, turn: int) -> TurnKey:
        """Return the name of a turn of this conversation."""
        return TurnKey(episode=self.conversation.episode.id, turn=turn, pass_=self.conversation.pass_, arm=arm)

    def is_done(self, arm: str, turn: int) -> bool:
        """Whether an earlier sitting finished or skipped the turn: it must not be asked again."""
        return self.key(arm, turn) in self._stage.done

    def is_over(self, arm: str) -> bool:
        """Whether the arm's conversation came to its end in an earlier sitting."""
        return ConversationKey(self.conversation.episode.id, self.conversation.pass_, arm) in self._stage.over

    def past(self, arm: str, turn: int) -> PastTurn | None:
        """Return what an earlier sitting has of the turn; None if it is not done."""
        return self._stage.past(self.key(arm, turn)) if self.is_done(arm, turn) else None

    async def ask(self, arm: str, turn: int, asked: Asked) -> Record | None:
        """
        Ask one arm one turn and return its end, which is in the history then.

        finished (see observation and judgement), skipped (it does not fit the context), or indeterminate (it could not
        be sent, or we were stopped). None: nothing was started, for the run drains or the server is gone.
        """
        key, stage = self.key(arm, turn), self._stage
        job = Job(
            key=key,
            asked=asked,
            seed=seed_for(stage.seed, key),
            salt=self.conversation.salt,
            session=f"{key.episode}.{key.pass_}.{arm}",
            start=stage.starts.get(key, 0),
        )
        record = await stage.runner.run(stage.arms[arm], job)
        if record is not None:
            stage.after(record)
        return record

    def skip(self, arm: str, turn: int, reason: str) -> Record:
        """End a turn that is not to be asked, and return that end."""
        record = Record(key=self.key(arm, turn), outcome="skipped", at=self._stage.clock.wall(), reason=reason)
        self._stage.ledger.finish(record)
        self._stage.listener.ended(record)
        self._stage.after(record)
        return record

    def end(self, end: ConversationEnd, asked: Asked | None = None, more: Sequence[Node] = ()) -> None:
        """
        Record that one arm's conversation is over; a resumed run does not take it up again.

        `asked` is its last turn and `more` what was said after it: they are stored, so that it can be read as a whole.
        """
        stage = self._stage
        if asked is not None:
            stage.ledger.messages((*asked.chain, *more), asked.tools)
        data = msgspec.to_builtins(end)
        stage.ledger.event(Event(at=stage.clock.wall(), kind=CONVERSATION_ENDED, arm=end.arm, text=end.text, data=data))


class Carrier(Protocol):
    """How conversations of a run go on: one per mode of replay."""

    async def carry(self, floor: Floor) -> None:
        """
        Carry one conversation on, on every arm that `floor` names, until it is over or the run drains.

        Called for conversations that are not over; several at once, each with its own floor. An error raised here ends
        the run.
        """
        ...

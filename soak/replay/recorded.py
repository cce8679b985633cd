"""Recorded replay: every prefix is the transcript's, so one bad turn cannot make the next ones guilty."""

from collections.abc import Iterator

from soak.facts import Record, Scenario
from soak.plan import Conversation, arm_order, think_time_s
from soak.replay.asked import Asked
from soak.replay.floor import Floor

_TOO_LONG = "not sent: an earlier turn of its conversation did not fit the model's context"


class Recorded:
    """Sends the turns of a conversation in order, each to every arm in turn, AB and BA alternating by pair."""

    def __init__(self, scenario: Scenario) -> None:
        self._think_time = scenario.think_time

    async def carry(self, floor: Floor) -> None:
        """Send what is left of the conversation; between pairs it stops if the run drains."""
        too_long: dict[str, int] = {}
        conversation = floor.conversation
        for turn in conversation.turns:
            pause_s = think_time_s(self._think_time, turn)
            if pause_s and not await floor.pause(pause_s):
                return
            order = arm_order(conversation, turn, floor.arms)
            for name in order:
                if floor.draining and name == order[0]:
                    return  # between pairs; a pair that has begun is completed
                await self._one(floor, turn.index, name, too_long)

    async def _one(self, floor: Floor, index: int, name: str, too_long: dict[str, int]) -> None:
        if floor.is_done(name, index):
            return
        episode = floor.conversation.episode
        turn = episode.turns[index]
        record: Record | None
        if name in too_long and too_long[name] in {turn.prefix, *_ancestors(floor.conversation, index)}:
            record = floor.skip(name, index, _TOO_LONG)
        else:
            record = await floor.ask(name, index, Asked.recorded(episode, turn))
        if record is not None and record.outcome == "skipped":
            too_long.setdefault(name, turn.prefix)


def _ancestors(conversation: Conversation, index: int) -> Iterator[int]:
    nodes = conversation.episode.nodes
    at = nodes[conversation.episode.turns[index].prefix].parent
    while at is not None:
        yield at
        at = nodes[at].parent

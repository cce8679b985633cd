"""Recorded replay: every prefix is the transcript's, so one bad turn cannot make the next ones guilty."""

from collections.abc import Iterator

from soak.facts import Record, Scenario, Turn
from soak.plan import Conversation, arm_order, think_time_s
from soak.replay.floor import Floor
from soak.replay.shaping import Shaper, Trip

_TOO_LONG = "not sent: an earlier turn of its conversation did not fit the model's context"


class Recorded:
    """Sends the turns of a conversation in order, each to every arm in turn, AB and BA alternating by pair."""

    def __init__(self, scenario: Scenario, shaper: Shaper | None = None) -> None:
        self._think_time = scenario.think_time
        self._shaper = shaper or Shaper(scenario)

    async def carry(self, floor: Floor) -> None:
        """Send what is left of the conversation; between pairs it stops if the run drains."""
        too_long: dict[str, int] = {}
        trip = self._shaper.begin(floor.conversation, floor)
        for turn in floor.conversation.turns:
            pause_s = think_time_s(self._think_time, turn)
            if (pause_s and not await floor.pause(pause_s)) or not await floor.turn_begins():
                return
            try:
                if not await self._pair(floor, turn, trip, too_long):
                    return
            finally:
                floor.turn_ends()

    async def _pair(self, floor: Floor, turn: Turn, trip: Trip, too_long: dict[str, int]) -> bool:
        """Send one turn to every arm; False if the run drains before it has begun: then no arm is sent it."""
        order = arm_order(floor.conversation, turn, floor.arms)
        for name in order:
            await floor.together(name)
            if floor.draining and name == order[0]:
                return False  # between pairs; a pair that has begun is completed
            await self._one(floor, turn.index, name, trip, too_long)
        return True

    async def _one(self, floor: Floor, index: int, name: str, trip: Trip, too_long: dict[str, int]) -> None:
        if floor.is_done(name, index):
            return
        episode = floor.conversation.episode
        turn = episode.turns[index]
        record: Record | None
        if name in too_long and too_long[name] in {turn.prefix, *_ancestors(floor.conversation, index)}:
            record = floor.skip(name, index, _TOO_LONG)
        else:
            record = await floor.ask(name, index, await trip.asked(turn))
        if record is not None and record.outcome == "skipped":
            too_long.setdefault(name, turn.prefix)


def _ancestors(conversation: Conversation, index: int) -> Iterator[int]:
    nodes = conversation.episode.nodes
    at = nodes[conversation.episode.turns[index].prefix].parent
    while at is not None:
        yield at
        at = nodes[at].parent

"""All that a plan plans, key by key."""

from collections.abc import Iterator

from soak.facts import TurnKey
from soak.plan import Plan, arm_order


def turn_keys(plan: Plan) -> Iterator[TurnKey]:
    """Yield the key of every planned turn and arm, in plan order; without end for a time budget."""
    for conversation in plan.conversations():
        for turn in conversation.turns:
            for arm in arm_order(conversation, turn, plan.arms):
                yield TurnKey(episode=conversation.episode.id, turn=turn.index, pass_=conversation.pass_, arm=arm)

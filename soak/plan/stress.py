"""What load shapes and secret words make of a plan, in numbers and sentences: for `--plan` and for the manifest."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from soak.facts import Load, Scenario, ShapesCard
from soak.plan.canaries import asks_for_word
from soak.plan.plan import Conversation, Plan
from soak.plan.shapes import abort_after, offset_for


def shapes_of(plan: Plan) -> ShapesCard | None:
    """Return what is done besides replaying, counted over the first pass; None for nothing."""
    load, scenario = plan.scenario.load, plan.scenario
    if not (scenario.canaries or any((load.overlap, load.staggered, load.abort, load.pressure, load.idle_gaps))):
        return None
    conversations = list(plan.a_pass(0))
    counted = ShapesCard(
        pass_turns=sum(len(one.turns) for one in conversations),
        siblings=load.overlap.siblings if load.overlap else 1,
        overlapped=sum(one.branch is not None and one.sibling == 0 for one in conversations),
        aborted=sum(marked_at(scenario, one, turn.index) is not None for one in conversations for turn in one.turns),
        offsets=_offsets(plan, conversations),
        recall=sum(asks_for_word(one.episode, turn) for one in conversations for turn in one.turns),
    )
    said = (*_load_said(load, counted), *_words_said(plan, counted))
    return msgspec.structs.replace(counted, said=said)


def marked_at(scenario: Scenario, conversation: Conversation, turn: int) -> int | None:
    """Return after how many characters this turn is to be closed; None where it is let run."""
    episode = conversation.episode
    if asks_for_word(episode, episode.turns[turn]):
        return None
    return abort_after(scenario.load.abort, scenario.seed, episode.id, turn, conversation.pass_)


def _offsets(plan: Plan, conversations: Sequence[Conversation]) -> dict[str, int]:
    staggered, seed = plan.scenario.load.staggered, plan.scenario.seed
    if staggered is None:
        return {}
    found = Counter(
        offset_for(staggered, seed, one.episode.id, turn.index, one.pass_)
        for one in conversations
        for turn in one.turns
    )
    return {f"{offset:+d}": found[offset] for offset in sorted(found)}


def _load_said(load: Load, card: ShapesCard) -> Iterator[str]:
    if load.overlap is not None:
        yield (
            f"overlap: {card.siblings} conversations begin together on one prefix in each of {card.overlapped}"
            f" episodes, from the turn at {load.overlap.depth:g} of their turns on"
        )
    if load.staggered is not None:
        block = load.staggered.block_tokens
        places = ", ".join(f"{turns} at {offset}" for offset, turns in card.offsets.items())
        size = f"{block} tokens" if block else "as the engine says, else 16 tokens"
        yield f"staggered: prompts end around a block's border ({places}; block {size}), released {_times(load)}"
    if load.abort is not None:
        span = f"{load.abort.min_chars} to {load.abort.max_chars} characters"
        turns = f"{card.aborted} of {card.pass_turns} turns of a pass"
        yield f"abort: {turns} are closed by us after {span}, and are in no class"
    if load.pressure is not None:
        press = load.pressure
        yield (
            f"pressure: from {load.in_flight} in flight {press.step} more every {press.every_s:g} s until the engine"
            f" preempts, at most {press.cap}"
        )
    if load.idle_gaps is not None:
        idle = load.idle_gaps
        yield f"idle gaps: after about every {idle.every_turns} turns nothing for {idle.min_s:g} to {idle.max_s:g} s"


def _times(load: Load) -> str:
    together = load.staggered.together if load.staggered else 1
    return f"{together} at a time" if together > 1 else "one by one"


def _words_said(plan: Plan, card: ShapesCard) -> Iterator[str]:
    if plan.scenario.canaries:
        yield (
            "canaries: each conversation is told a secret word of its own behind its first message (siblings: behind"
            " the prefix they share); prefixes are not those of a run without words, and what lies behind a word is"
            f" shared by no two conversations; {card.recall} turns of a pass ask for it at the end"
        )

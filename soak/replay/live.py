"""
Live replay: the model's own answers carry the conversation on, the transcript answers its calls.

It opens as the record does. After each answer its calls get their results (`matching.py`); an answer without a call
gets what the user said next in the record. It ends, in this order:

    context_full    the next prefix does not fit the model's context
    error           no whole answer came, or one whose calls no server would take back
    cut             we closed the stream on a loop (`on_loop: cut`, or while draining)
    record_over     a call of the last recorded turn was made: submitted, mostly
    answered        an answer without a call, nobody has more to say, and the record has no further call
    answered_early  the same while the record goes on
    loop            the same calls with the same results again and again, to the end (`classify.rounds`)
    max_turns       `live.max_turns` times the recorded turns
    budget          the budget of turns did not allow for more

Two arms hold two conversations, each with its own answers. They go on side by side, a turn at a time, AB and BA in
turn, but from the second turn on they are not asked the same, so that only whole conversations can be compared.

Resume: a conversation that has no end is gone through again from its beginning with the stored answers, nothing is sent
for those, and then goes on; all that happens to it is a function of the record and the answers. Should a prefix come
out otherwise than it was sent, the run is refused.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from soak.classify import Round, RoundWatch, calls_in_text, is_tool_name
from soak.errors import RunFolderError
from soak.facts import (
    ConversationEnd,
    Episode,
    Message,
    Node,
    Observation,
    Record,
    Scenario,
    ToolCall,
    Turn,
    chained,
    clean,
)
from soak.plan import Conversation, think_time_s, turn_limit
from soak.replay.asked import Asked
from soak.replay.floor import Floor
from soak.replay.matching import Matched, Matcher
from soak.replay.script import Failures, Script

CALLS_MAX = 64
"""Calls of one answer that go into the history and get a result; what makes more is garbage and judged as such."""

_WHOLE = ("complete", "no_end_marker")


class Live:
    """Carries conversations on with the model's own answers; one for all conversations of a sitting."""

    def __init__(self, scenario: Scenario, episodes: Iterable[Episode]) -> None:
        self._scenario = scenario
        self._scripts: Mapping[str, Script] = {episode.id: Script(episode) for episode in episodes if episode.turns}
        self._failures = Failures(self._scripts.values())

    async def carry(self, floor: Floor) -> None:
        """Carry one conversation on in every arm, a turn each in turn, until all are over or the run drains."""
        conversation = floor.conversation
        open_ = {arm: self._dialogue(floor, arm) for arm in floor.arms if not floor.is_over(arm)}
        for index in range(conversation.turn_limit):
            if not open_ or floor.draining or not await self._paused(floor, open_, index):
                return
            shift = (conversation.ordinal + index) % len(floor.arms)
            for arm in (*floor.arms[shift:], *floor.arms[:shift]):
                if arm in open_ and not await open_[arm].go_on(floor):
                    del open_[arm]

    def _dialogue(self, floor: Floor, arm: str) -> "Dialogue":
        conversation = floor.conversation
        script = self._scripts[conversation.episode.id]
        full = turn_limit(self._scenario, conversation.episode)
        return Dialogue(
            arm,
            conversation,
            script,
            Matcher(script, self._failures, self._scenario.live.match),
            text_mode=floor.tool_mode(arm) == "text",
            at_limit="max_turns" if conversation.turn_limit == full else "budget",
        )

    async def _paused(self, floor: Floor, open_: Mapping[str, "Dialogue"], index: int) -> bool:
        """Pause as the record or the scenario has it; not before turns that were done in an earlier sitting."""
        if all(floor.is_done(arm, index) for arm in open_):
            return True
        turns = floor.conversation.episode.turns
        pause_s = think_time_s(self._scenario.think_time, turns[index] if index < len(turns) else _after(turns, index))
        return not pause_s or await floor.pause(pause_s)


def _after(turns: Sequence[Turn], index: int) -> Turn:
    """Return a turn that no record has, for its pause."""
    return Turn(index=index, prefix=turns[-1].prefix)


class Dialogue:
    """One arm's conversation: its history so far, where in the record it stands, and whether it is over."""

    def __init__(
        self,
        arm: str,
        conversation: Conversation,
        script: Script,
        matcher: Matcher,
        *,
        text_mode: bool,
        at_limit: str,
    ) -> None:
        self._arm = arm
        self._conversation = conversation
        self._script = script
        self._matcher = matcher
        self._text_mode = text_mode
        self._at_limit = at_limit
        self._watch = RoundWatch()
        self._chain: tuple[Node, ...] = script.opening
        self._ids = {call.id for node in script.opening for call in node.message.tool_calls}
        self._said = 0
        self._turn = 0
        self._dropped = 0

    async def go_on(self, floor: Floor) -> bool:
        """Ask the next turn and take its answer; False if the conversation is over or the run is."""
        asked = self._asked()
        record = self._past(floor, asked) or await floor.ask(self._arm, self._turn, asked)
        if record is None or record.outcome == "indeterminate":
            return False
        self._turn += 1
        reason, text = self._take(record)
        if reason is None and self._turn >= self._conversation.turn_limit:
            reason, text = self._at_limit, f"after {self._turn} turns; {len(self._conversation.turns)} are recorded"
        if reason is None:
            return True
        floor.end(self._end(reason, text), asked, self._chain[len(asked.chain) :])
        return False

    def _asked(self) -> Asked:
        """Return the next turn; the record's answer belongs to the record's prefix, so to the first turn alone."""
        episode = self._script.episode
        if self._turn == 0:
            return Asked.recorded(episode, episode.turns[0])
        return Asked(chain=self._chain, tools=episode.tools)

    def _past(self, floor: Floor, asked: Asked) -> Record | None:
        past = floor.past(self._arm, self._turn)
        if past is None:
            return None
        if past.prefix is not None and past.prefix != asked.digest:
            raise RunFolderError(
                f"the live conversation at {floor.key(self._arm, self._turn)} cannot be gone on with",
                why="its stored answers lead to other messages than were sent then",
                hint="resume it with the soak version that began it (the manifest names it), or begin a new run",
            )
        return past.record

    # -- what came back ----------------------------------------------------------------------------------------

    def _take(self, record: Record) -> tuple[str | None, str]:
        """Take one answer into the history, with what comes back for it; return why it is the last, if it is."""
        observation = record.observation
        if observation is None:
            return "context_full", record.reason or ""
        if observation.ending == "cut":
            return "cut", "its answer was cut as a loop"
        if observation.ending not in _WHOLE:
            return "error", f"its answer ended as {observation.ending}"
        calls = self._calls(observation)
        unusable = next((call for call in calls if not self._can_be_sent(call)), None)
        if unusable is not None:
            return "error", f"its call of {unusable.name[:60]!r} has a name or arguments that no server takes back"
        if not calls and record.judgement is not None and record.judgement.class_ == "error":
            return "error", record.judgement.reason
        self._append(self._answer(observation, calls))
        return self._after_calls(observation, calls) if calls else self._after_words(observation)

    def _after_calls(self, observation: Observation, calls: tuple[ToolCall, ...]) -> tuple[str | None, str]:
        found = self._matcher.answer(calls)
        for call, matched in zip(calls, found, strict=True):
            self._append(Message(role="tool", content=clean(matched.result), tool_call_id=call.id))
        results = tuple(matched.result for matched in found)
        self._watch.add(Round(self._turn - 1, calls, results, observation.content))
        if any(matched.recorded is not None and self._script.ends_with(matched.recorded) for matched in found):
            return "record_over", f"it made the record's last call after {self._turn} turns"
        self._remind(found)
        return self._looping()

    def _after_words(self, observation: Observation) -> tuple[str | None, str]:
        self._watch.add(Round(self._turn - 1, (), (), observation.content))
        if self._said < len(self._script.remarks):
            self._say()
            return self._looping()
        left = sum(call.place >= self._matcher.position for call in self._script.calls)
        if left:
            return "answered_early", f"it answered without a call while the record has {left} more"
        return "answered", f"it gave its answer after {self._turn} turns"

    def _looping(self) -> tuple[str | None, str]:
        loop = next((loop for loop in self._watch.loops() if loop.to_end), None)
        return (None, "") if loop is None else ("loop", loop.text)

    def _say(self) -> None:
        """Say what the user says next in the record; the record goes on behind it."""
        remark = self._script.remarks[self._said]
        self._said += 1
        for message in remark.messages:
            self._append(message)
        self._matcher.go_on_after(remark.turn)

    def _remind(self, found: Sequence[Matched]) -> None:
        """Say what was said together with the results that were just given, if it is next."""
        given = {matched.recorded.turn for matched in found if matched.recorded is not None}
        if self._said < len(self._script.remarks) and self._script.remarks[self._said].turn in given:
            self._say()

    # -- the history -------------------------------------------------------------------------------------------

    def _calls(self, observation: Observation) -> tuple[ToolCall, ...]:
        """Return the calls of an answer, each with an id of its own."""
        made = calls_in_text(observation.content) if self._text_mode else observation.tool_calls
        self._dropped += max(0, len(made) - CALLS_MAX)
        return tuple(self._named(call, place) for place, call in enumerate(made[:CALLS_MAX]))

    def _named(self, call: ToolCall, place: int) -> ToolCall:
        id_ = clean(call.id)
        if not id_ or id_ in self._ids or self._text_mode:
            id_ = f"call-{self._turn}-{place}"
        while id_ in self._ids:
            id_ += "-"
        named = ToolCall(
            id=id_,
            name=clean(call.name),
            arguments=clean(call.arguments).strip() or "{}",
        )
        self._ids.add(named.id)
        return named

    def _can_be_sent(self, call: ToolCall) -> bool:
        """Whether a call may stand in a history; in text mode it is text like any other."""
        return self._text_mode or (is_tool_name(call.name) and _is_object(call.arguments))

    def _answer(self, observation: Observation, calls: tuple[ToolCall, ...]) -> Message:
        if self._text_mode:
            return Message(role="assistant", content=clean(observation.content))
        return Message(role="assistant", content=clean(observation.content) or None, tool_calls=calls)

    def _append(self, message: Message) -> None:
        self._chain = chained(self._chain, (message,), self._script.episode.tools)

    def _end(self, reason: str, text: str) -> ConversationEnd:
        counts: dict[str, int] = dict(self._matcher.counts.items())
        counts["recorded_turns"] = len(self._script.episode.turns)
        if self._dropped:
            counts["calls_dropped"] = self._dropped
        return ConversationEnd(
            episode=self._conversation.episode.id,
            pass_=self._conversation.pass_,
            arm=self._arm,
            reason=reason,
            turns=self._turn,
            last=self._chain[-1].digest,
            counts=counts,
            text=text,
        )


def _is_object(arguments: str) -> bool:
    """Whether arguments are what servers take back in a history: the JSON of an object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False

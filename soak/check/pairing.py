"""Two arms' turns side by side: pairs by episode, turn and pass, and whether the two runs may be compared at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from soak.check.conversations import ConversationFact
from soak.check.summary import MAX_INDETERMINATE, MAX_SKIPPED
from soak.check.turns import TurnFact, episode_numbers
from soak.check.wording import percent
from soak.facts import CARRIED_ON, ArmCard, ArmSummary, ConversationEnd, Manifest, TurnKey
from soak.stats import PairedEvents, PairedTurns

MAX_ONE_SIDED = 0.1
"""Above this share of turns finished by one arm and skipped or broken off in the other, the work was not the same."""

# What a scenario says of what is sent, when, how it is taken in and how it is judged. Not: what only ends a run or
# watches it (budget, drain_s, server_return_s, scrape_every_s), warms it up, or is said of its result.
_MUST_MATCH = (
    "replay",
    "tools",
    "sampling",
    "load",
    "think_time",
    "deadlines",
    "retries",
    "salt",
    "canaries",
    "client",
    "on_loop",
    "min_room_tokens",
    "logprobs",
    "extra_body",
    "classify",
)
# What else counts in one mode of replay, and says nothing in the others.
_OF_MODE = {"live": ("live",), "agent": ("agent", "sandbox")}
_AGENT = "mini-swe-agent"
_NAMES = {
    "replay": "modes of replay",
    "live": "settings of live replay",
    "tools": "tool mode",
    "think_time": "think time",
    "extra_body": "extra request fields",
    "load": "load shape",
    "canaries": "secret words",
    "client": "client paths",
    "on_loop": "ways with loops (on_loop)",
    "classify": "classifier settings",
    "agent": "agent settings",
    "sandbox": "sandbox limits",
}
_SHOWN_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmHistory:
    """
    One side of a comparison.

    `label` is what the output calls it; `turns` are its planned turns' ends. `engine_starts_at`: when the engine's
    processes began (UTC epoch seconds), as far as its metrics told. `requests`: the digest of what was sent for each
    turn (`facts.Started.request`, of its last start), as far as it is known. `conversations`: those that came to their
    end, where turns were made at run time; `ends`: how.
    """

    label: str
    manifest: Manifest
    arm: str
    turns: Sequence[TurnFact]
    summary: ArmSummary
    engine_starts_at: tuple[float, ...] = ()
    requests: Mapping[TurnKey, str] = field(default_factory=dict)
    ends: Sequence[ConversationEnd] = ()
    conversations: Sequence[ConversationFact] = ()

    @property
    def card(self) -> ArmCard:
        """The arm's card in the manifest; raises `KeyError` if the run has no such arm."""
        for card in self.manifest.arms:
            if card.name == self.arm:
                return card
        raise KeyError(self.arm)


class Pair(NamedTuple):
    """One turn that both arms finished."""

    baseline: TurnFact
    candidate: TurnFact


class Pairing(NamedTuple):
    """
    `pairs` by episode, pass and turn; finished turns without a partner; `one_sided`: the partner was skipped or broken
    off; `places`: where each pair stands, for the statistics; `episodes`: the number of each pair's episode.
    `own_ways`: the arms' own answers carried conversations on, so that no turn has a partner, and only whole episodes
    can be compared.
    """

    pairs: list[Pair]
    baseline_alone: list[TurnFact]
    candidate_alone: list[TurnFact]
    one_sided: int
    places: PairedTurns
    episodes: list[int]
    own_ways: bool = False

    @property
    def clusters(self) -> int:
        """
        Episodes that hold a pair (or any finished turn, where there is no pair).

        Of arms that went their own ways those that both ran, if there are any.
        """
        if self.pairs:
            return len({pair.baseline.key.episode for pair in self.pairs})
        first, second = ({turn.key.episode for turn in alone} for alone in (self.baseline_alone, self.candidate_alone))
        return len((first & second if self.own_ways else None) or first | second)

    def finished(self) -> tuple[list[TurnFact], list[TurnFact]]:
        """Return all finished turns of the baseline and of the candidate."""
        return (
            [pair.baseline for pair in self.pairs] + self.baseline_alone,
            [pair.candidate for pair in self.pairs] + self.candidate_alone,
        )

    def events(self, classes: frozenset[str]) -> PairedEvents:
        """Return, per pair, which arm's turn is of one of `classes`."""
        return self.places.events(
            [pair.baseline.class_ in classes for pair in self.pairs],
            [pair.candidate.class_ in classes for pair in self.pairs],
        )

    def conversations(self) -> Iterator[list[Pair]]:
        """Yield the pairs of each conversation (an episode in one pass), in turn order."""
        together: list[Pair] = []
        for pair in self.pairs:
            if together and conversation_of(together[0].baseline) != conversation_of(pair.baseline):
                yield together
                together = []
            together.append(pair)
        if together:
            yield together


def conversation_of(turn: TurnFact) -> tuple[str, int]:
    """Return the conversation a turn belongs to: its episode and pass."""
    return turn.key.episode, turn.key.pass_


def pair_up(baseline: ArmHistory, candidate: ArmHistory) -> Pairing:
    """
    Return both arms' turns, paired where both finished the same episode, turn and pass; live turns never are.

    Live traffic (of `soak proxy`) is paired as a whole or not at all: where an agent has gone its own way in either
    run, pairing the few turns in which both were asked the same would leave out most of what happened.
    """
    if any(side.manifest.scenario.get("replay") in CARRIED_ON for side in (baseline, candidate)):
        own = [[turn for turn in side.turns if turn.finished] for side in (baseline, candidate)]
        return Pairing([], own[0], own[1], 0, PairedTurns([], [], []), [], own_ways=True)
    first, second = _turns(baseline), _turns(candidate)
    both = [key for key, turn in first.items() if turn.finished and key in second and second[key].finished]
    unlike = _asked_otherwise(baseline, candidate, [(first[key], second[key]) for key in both])
    both = [] if unlike else both
    both.sort(key=itemgetter(0, 2, 1))
    paired = set(both)
    alone = [
        [turns[key] for key in sorted(key for key, turn in turns.items() if turn.finished and key not in paired)]
        for turns in (first, second)
    ]
    one_sided = sum(turn.key.pair in second for turn in alone[0]) + sum(turn.key.pair in first for turn in alone[1])
    one_sided = 0 if unlike else one_sided
    places = PairedTurns([key[0] for key in both], [(key[0], key[2]) for key in both], [key[1] for key in both])
    pairs = [Pair(first[key], second[key]) for key in both]
    return Pairing(pairs, alone[0], alone[1], one_sided, places, episode_numbers(key[0] for key in both))


def _asked_otherwise(baseline: ArmHistory, candidate: ArmHistory, both: Sequence[tuple[TurnFact, TurnFact]]) -> bool:
    """Return whether both are live traffic in which turns of the same key were not asked the same."""
    if not all(side.manifest.scenario.get("replay") == "proxy" for side in (baseline, candidate)):
        return False
    return any(baseline.requests.get(one.key) != candidate.requests.get(other.key) for one, other in both)


def works_on_tasks(side: ArmHistory) -> bool:
    """Whether an agent worked on tasks in this run."""
    return bool(side.manifest.scenario.get("replay") == "agent")


def _turns(side: ArmHistory) -> dict[tuple[str, int, int], TurnFact]:
    return {turn.key.pair: turn for turn in side.turns}


def invalid_reasons(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing, *, min_turns: int) -> list[str]:
    """Return why no conclusion may be drawn from the two arms; empty if one may."""
    return [
        *(f"{side.label} is invalid: {why}" for side in (baseline, candidate) for why in side.summary.invalid_reasons),
        *_plan_differences(baseline, candidate),
        *_different_requests(baseline, candidate, pairing),
        *(why for side in (baseline, candidate) for why in _too_much_lost(side)),
        *_too_few(baseline, candidate, pairing, min_turns),
        *_too_lopsided(pairing),
    ]


def _plan_differences(baseline: ArmHistory, candidate: ArmHistory) -> list[str]:
    first, second = baseline.manifest, candidate.manifest
    reasons = []
    if first.corpus.digest != second.corpus.digest:
        reasons.append(f"different corpora: {first.corpus.name} and {second.corpus.name} do not hold the same episodes")
    if first.seed != second.seed:
        reasons.append(f"different seeds ({first.seed} and {second.seed}): the plans are not the same")
    if baseline.card.tool_mode != candidate.card.tool_mode:
        reasons.append(f"different tool modes: {baseline.card.tool_mode} and {candidate.card.tool_mode}")
    for name in (*_MUST_MATCH, *_OF_MODE.get(str(first.scenario.get("replay")), ())):
        one, other = _stated(first.scenario.get(name)), _stated(second.scenario.get(name))
        if one != other:
            reasons.append(f"different {_NAMES.get(name, name)}: {_difference(one, other)}")
    versions = [run.environment.get(_AGENT) for run in (first, second)]
    if None not in versions and versions[0] != versions[1]:
        reasons.append(f"different agents: {_AGENT} {versions[0]} and {versions[1]} have prompts of their own")
    return reasons


def _different_requests(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing) -> list[str]:
    """
    Return that paired turns were not sent the same request; pairs of which a digest is unknown say nothing.

    One difference is not held against them, for it follows from what the servers can do and has a warning of its own:
    where their contexts are known to differ, an answer is clamped to the room that each one leaves.
    """
    context = _contexts_differ(baseline, candidate)
    different = []
    for pair in pairing.pairs:
        one, other = baseline.requests.get(pair.baseline.key), candidate.requests.get(pair.candidate.key)
        explained = context and (pair.baseline.clamped or pair.candidate.clamped)
        if one is not None and other is not None and one != other and not explained:
            different.append(pair)
    if not different:
        return []
    episode, turn, pass_ = different[0].baseline.key.pair
    return [
        f"different requests: {len(different)} of {len(pairing.pairs)} paired turns were not sent the same in both"
        f" arms, the first of them {episode}:{turn}:{pass_}"
    ]


def _contexts_differ(baseline: ArmHistory, candidate: ArmHistory) -> bool:
    first, second = baseline.card.capabilities, candidate.card.capabilities
    return first is not None and second is not None and first.context_tokens != second.context_tokens


def _stated(setting: Any) -> Any:
    """Return a setting without what it leaves open: a run of a version that did not have it yet says the same."""
    if isinstance(setting, dict):
        return {name: value for name, value in setting.items() if value is not None}
    return None if setting is False else setting


def _difference(one: Any, other: Any) -> str:
    """Return the fields in which two settings differ, or both settings."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        text = ", ".join(f"{name} {one.get(name)} and {other.get(name)}" for name in names)
    else:
        text = f"{one} and {other}"
    return text[:_SHOWN_MAX]


def _too_much_lost(side: ArmHistory) -> list[str]:
    """Return why too little of the plan was carried out in this arm; what was lost may not be random."""
    turns = side.summary.turns
    lost = (
        (turns.skipped, MAX_SKIPPED, "were skipped"),
        (turns.indeterminate, MAX_INDETERMINATE, "were broken off by ourselves (indeterminate)"),
    )
    return [
        f"{side.label}: {count} of {turns.planned} planned turns {what}: more than {percent(limit)}"
        for count, limit, what in lost
        if count > limit * turns.planned
    ]


def _too_few(baseline: ArmHistory, candidate: ArmHistory, pairing: Pairing, min_turns: int) -> list[str]:
    if pairing.pairs:
        few = len(pairing.pairs) < min_turns
        return [f"{len(pairing.pairs)} paired turns are below the {min_turns} the scenario asks for"] * few
    sides = zip((baseline, candidate), pairing.finished(), strict=True)
    return [
        f"{side.label}: {len(turns)} finished turns are below the {min_turns} the scenario asks for"
        for side, turns in sides
        if len(turns) < min_turns
    ]


def _too_lopsided(pairing: Pairing) -> list[str]:
    whole = len(pairing.pairs) + pairing.one_sided
    if pairing.one_sided <= MAX_ONE_SIDED * whole:
        return []
    return [
        f"{pairing.one_sided} of {whole} turns were finished by one arm and skipped or broken off (indeterminate)"
        f" in the other: more than {percent(MAX_ONE_SIDED)}, so the arms did not face the same work"
    ]

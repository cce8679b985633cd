"""From a run folder to a summary: the last step of `soak run`, and `soak check`, which judges every answer again."""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

import soak.classify
from soak.check import (
    ConversationFact,
    HistoryView,
    Span,
    TurnFact,
    final_turns,
    scenario_of,
    spans_elsewhere,
    summarise,
    turns_with_findings,
)
from soak.classify import DEFAULTS, Context, Settings, cross_turn_loops, judge, prompt_text_of, rounds_of
from soak.errors import RunFolderError, UsageError
from soak.facts import (
    RECALL_QUESTION,
    Canary,
    ConversationLoop,
    EngineSample,
    EngineTurn,
    Judgement,
    Manifest,
    Message,
    PlanCard,
    Record,
    Scenario,
    Started,
    Summary,
    TurnKey,
    clean,
    digest_of,
    text_of,
)
from soak.plan import siblings_of, word_for
from soak.scenario import threshold_problem
from soak.store import History, RunFolder

_JUDGING_PACKAGES = ("numpy", "rapidfuzz")


@dataclass(frozen=True, kw_only=True)
class Rejudging:
    """How a stored run is judged again: `classify` settings by name, and `pass_if` in place of the scenario's."""

    classify: Mapping[str, float] = field(default_factory=dict)
    pass_if: tuple[str, ...] | None = None


def check_run(path: Path, rejudging: Rejudging | None = None) -> Summary:
    """
    Judge a stored run again with this soak's classifiers and return its summary; nothing is written.

    Raises `RunFolderError` for a damaged folder, `UsageError` for an unknown setting or threshold.
    """
    folder = RunFolder.open(path)
    changed = rejudging or Rejudging()
    manifest = _with_thresholds(folder.manifest, changed)
    with folder.history() as history:
        judgements = judge_again(history, manifest, changed.classify)
        return summary_of_history(folder, manifest, history, final_turns(history.outlines(), judgements))


def summary_of(folder: RunFolder) -> Summary:
    """Return the summary of a run as its turns were judged when they ended."""
    with folder.history() as history:
        return summary_of_history(folder, folder.manifest, history, final_turns(history.outlines()))


def judge_again(history: History, manifest: Manifest, changes: Mapping[str, float]) -> dict[TurnKey, Judgement]:
    """
    Return a fresh judgement of every finished turn, from nothing but the run folder.

    Empty where the stored ones are by the very same classifiers with the very same settings: judging is a pure
    function, so they would come out again.
    """
    settings = _settings(scenario_of(manifest), changes)
    modes = {card.name: card.tool_mode for card in manifest.arms}
    refuse_unknown_arms(history, modes)
    if manifest.classifier is not None and manifest.classifier == classifier_fingerprint(settings):
        return {}
    own_answers = scenario_of(manifest).replay != "recorded"
    starts = {started.key: started for started in history.starts()}
    words = words_told(manifest, starts)
    return {
        key: judge(
            record.observation,
            stored_context(history, starts[key], record, modes[key.arm], own_answers=own_answers, words=words),
            settings,
        )
        for key, record in history.final().items()
        if record.observation is not None and key in starts
    }


def conversation_facts(history: History, manifest: Manifest) -> dict[str, list[ConversationFact]]:
    """
    Return each arm's conversations that came to their end, with the loops across their turns.

    Loops are judged anew from the stored messages; a run of recorded turns has no such conversations.
    """
    facts: dict[str, list[ConversationFact]] = defaultdict(list)
    modes = {card.name: card.tool_mode for card in manifest.arms}
    for end in history.conversation_ends():
        begun = history.started(TurnKey(episode=end.episode, turn=0, pass_=end.pass_, arm=end.arm))
        loops: tuple[ConversationLoop, ...] = ()
        if begun is not None and end.last is not None:
            said = history.prefix(end.last)[len(history.prefix(begun.prefix)) :]
            loops = cross_turn_loops(rounds_of(said, text_mode=modes.get(end.arm) == "text"))
        facts[end.arm].append(ConversationFact(end=end, loops=loops))
    return facts


def refuse_unknown_arms(history: History, known: Collection[str]) -> None:
    """Raise `RunFolderError` if the history holds turns of an arm that the manifest does not name."""
    unknown = sorted({key.arm for key in history.start_counts()} - set(known))
    if unknown:
        named = ", ".join(known) or "none"
        raise RunFolderError(
            "the manifest and the history do not belong together",
            why=f"the history holds turns of {', '.join(unknown)[:200]}, the manifest names {named}",
            hint="put the run's own manifest.json back",
        )


def classifier_fingerprint(settings: Settings) -> str:
    """Return `sha256:<hex>` over all that a judgement depends on: classifier sources, libraries and settings."""
    sources = {
        entry.name: hashlib.sha256(entry.read_bytes()).hexdigest()
        for entry in resources.files(soak.classify).iterdir()
        if entry.name.endswith(".py")
    }
    return digest_of([sources, {name: version(name) for name in _JUDGING_PACKAGES}, asdict(settings)])


class Words(NamedTuple):
    """The secret words of a run: `of` conversation (episode, pass), and by word whose it is."""

    of: Mapping[tuple[str, int], str] = MappingProxyType({})
    owners: Mapping[str, str] = MappingProxyType({})


NO_WORDS = Words()


def words_told(manifest: Manifest, begun: Iterable[TurnKey]) -> Words:
    """Return the words that the conversations of a run were told; none where it told none."""
    if not scenario_of(manifest).canaries:
        return NO_WORDS
    of = {(key.episode, key.pass_): word_for(manifest.seed, key.episode, key.pass_) for key in begun}
    return Words(of, {word: f"{episode}:{pass_}" for (episode, pass_), word in of.items()})


def stored_context(
    history: History,
    started: Started,
    record: Record,
    tool_mode: str,
    *,
    own_answers: bool = False,
    words: Words = NO_WORDS,
) -> Context:
    """Return what a stored answer was given; `own_answers` as for `classify.prompt_text_of`, `words`: `words_told`."""
    prefix = history.prefix(started.prefix)
    return Context(
        prompt_text=prompt_text_of(prefix, own_answers=own_answers),
        tools=history.tools(started.tools),
        reference=history.message(started.answer) if started.answer else None,
        reference_tokens=started.answer_tokens,
        max_tokens=record.observation.max_tokens if record.observation else None,
        tool_mode="text" if tool_mode == "text" else "native",
        canary=_canary(started.key, prefix, words),
    )


def _canary(key: TurnKey, prefix: Sequence[Message], words: Words) -> Canary | None:
    own = words.of.get((key.episode, key.pass_))
    if own is None:
        return None
    asked = bool(prefix) and prefix[-1].role == "user" and text_of(prefix[-1].content).startswith(RECALL_QUESTION)
    return Canary(word=own, owners=words.owners, asked=asked)


def view_of(
    history: History,
    turns: Sequence[TurnFact],
    starts: Mapping[TurnKey, int],
    conversations: Mapping[str, Sequence[ConversationFact]],
) -> HistoryView:
    """Return what the checkers read of a history; `starts` counts how often each turn was started."""
    repeated = Counter(key.arm for key, count in starts.items() for _ in range(count - 1))
    return HistoryView(
        turns=turns,
        samples=samples_of(history),
        open_starts=Counter(started.key.arm for started in history.open_starts()),
        repeated_starts=repeated,
        events=tuple(history.events()),
        ends=tuple(history.conversation_ends()),
        conversations=conversations,
        broken_off=broken_off(history),
    )


def samples_of(history: History) -> dict[str, list[EngineSample]]:
    """Return the readings of each arm's engine, oldest first."""
    samples = defaultdict(list)
    for sample in history.samples():
        samples[sample.arm].append(sample)
    return samples


def engine_turns_of(history: History, manifest: Manifest, turns: Iterable[TurnFact]) -> dict[TurnKey, EngineTurn]:
    """Return what the engine did for each of `turns`, all that a run finished, with its findings."""
    by_arm: dict[str, list[TurnFact]] = {card.name: [] for card in manifest.arms}
    for turn in turns:
        by_arm.setdefault(turn.key.arm, []).append(turn)
    samples, broken = samples_of(history), broken_off(history)
    return {
        found.key: found
        for arm, own in by_arm.items()
        for found in turns_with_findings(own, samples.get(arm, ()), spans_elsewhere(arm, manifest, by_arm, broken))
    }


def broken_off(history: History) -> dict[str, list[Span]]:
    """Return the times in flight of each arm's starts that came to no finish; one without an end goes on for ever."""
    spans = defaultdict(list)
    for started, ended_at in history.broken_off():
        end = math.inf if ended_at is None else ended_at
        spans[started.key.arm].append(Span(begin=started.at, end=max(end, started.at), answered=False))
    return spans


def state_of(history: History) -> str:
    """Return how the last sitting of a run ended; `running` if it has not (it runs, or was killed)."""
    state = "running"
    for event in history.events():
        if event.kind == "ended":
            state = str(event.data.get("state", "complete"))
        elif event.kind == "resumed":
            state = "running"
    return state


def plan_card_of(manifest: Manifest, reached: Iterable[TurnKey]) -> PlanCard:
    """Return what was planned for each arm; for a time budget, and for turns made at run time, what was reached."""
    scenario = scenario_of(manifest)
    budget, a_pass = scenario.budget, manifest.shapes.pass_turns if manifest.shapes else manifest.corpus.turns
    turns, passes = budget.turns or 0, budget.passes or 1
    if budget.turns is not None:
        passes = -(-turns // max(1, a_pass))
    elif budget.passes is not None:
        turns = a_pass * passes
    tasks = turns if scenario.replay == "agent" else 0  # the tasks' corpus holds one turn for each
    if scenario.replay != "recorded" or not turns:
        pairs = {key.pair for key in reached}
        if scenario.replay == "agent" and not tasks:
            tasks = len({(episode, pass_) for episode, _, pass_ in pairs})
        turns = len(pairs)
        if budget.turns is None and budget.passes is None:
            passes = 1 + max((pass_ for _, _, pass_ in pairs), default=0) // siblings_of(scenario.load)
    episodes = manifest.corpus.episodes if scenario.replay != "proxy" else len({key.episode for key in reached})
    return PlanCard(
        episodes=episodes, turns=turns, passes=passes, seed=manifest.seed, hash=manifest.plan_digest, tasks=tasks
    )


def summary_of_history(
    folder: RunFolder,
    manifest: Manifest,
    history: History,
    turns: Sequence[TurnFact],
    conversations: Mapping[str, Sequence[ConversationFact]] | None = None,
) -> Summary:
    """Return the summary of an open history whose turns came to these ends; conversations are read if not given."""
    starts = history.start_counts()
    return summarise(
        manifest,
        view_of(
            history,
            turns,
            starts,
            conversation_facts(history, manifest) if conversations is None else conversations,
        ),
        run=clean(str(folder.path)),
        state=state_of(history),
        plan=plan_card_of(manifest, (*starts, *(turn.key for turn in turns))),
        wall_s=history.active_s(),
    )


def _settings(scenario: Scenario, changes: Mapping[str, float]) -> Settings:
    try:
        return DEFAULTS.override({**scenario.classify, **changes})
    except ValueError as error:
        raise UsageError(
            "a classify setting cannot be used", why=str(error), hint="soak/classify/README.md lists them"
        ) from error


def _with_thresholds(manifest: Manifest, changed: Rejudging) -> Manifest:
    """Return the manifest with other `pass_if` expressions, checked."""
    if changed.pass_if is None:
        return manifest
    problems = [problem for text in changed.pass_if if (problem := threshold_problem(text)) is not None]
    if problems:
        raise UsageError("a threshold cannot be used", why="; ".join(problems), hint='write it like "rate.error <= 1%"')
    thresholds = {**manifest.scenario.get("thresholds", {}), "pass_if": list(changed.pass_if)}
    return msgspec.structs.replace(manifest, scenario={**manifest.scenario, "thresholds": thresholds})

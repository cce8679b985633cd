"""`soak resume`: go on where a killed, crashed or interrupted run stopped; nothing lost, nothing done twice."""

import time
from dataclasses import replace
from pathlib import Path

import msgspec

from soak.app.audience import Audience
from soak.app.course import Course, Earlier
from soak.app.judging import classifier_fingerprint, summary_of
from soak.app.order import Phase
from soak.app.run import RunResult, corpus_for, note_sides, refuse_idle_agent, run_loop, used_s_of
from soak.app.sides import ArmSpec, Side, arm_spec, open_sides
from soak.app.sitting import ARMS_DONE, decider_of
from soak.check import Watcher, scenario_of
from soak.classify import DEFAULTS
from soak.errors import CorpusError, TargetError, UsageError
from soak.facts import ArmCard, Event, Manifest, Scenario
from soak.importers import Corpus
from soak.plan import Plan, make_plan
from soak.replay import RealClock, Tally
from soak.store import History, RunFolder, close_open_starts

_SAME_BUILD = (
    "model",
    "engine",
    "version",
    "context_tokens",
    "speculation_on",
    "prefix_cache_on",
    "token_ids",
    "native_tools",
    "counts_tokens",
)


def resume(path: Path, *, target: str | None, api_key: str | None, audience: Audience) -> RunResult:
    """
    Go on with the run in `path` and return its summary.

    Turns that were in flight close as indeterminate and are offered again. `target` replaces the URL of a one-arm run
    whose server moved. Raises `RunFolderError`, `CorpusError` (it changed), `TargetError` (another build answers).
    """
    folder = RunFolder.open(path)
    manifest = folder.manifest
    scenario = scenario_of(manifest)
    if scenario.replay == "proxy":
        raise UsageError(
            f"{path} cannot be resumed",
            why="it was kept by `soak proxy`: what the clients have asked cannot be asked on their behalf",
            hint="start `soak proxy` again with a new run; record this one with: soak proxy --finish RUN --record DIR",
        )
    corpus = same_corpus(manifest)
    refuse_idle_agent(scenario, corpus)
    specs = _specs(manifest, target)
    plan = make_plan(scenario, corpus.episodes, [card.name for card in manifest.arms])
    goes_on = _GoingOn(folder, plan)
    Course(
        scenario=scenario,
        plan=plan,
        phases=_left_of(phases_of_run(manifest, specs), folder),
        audience=audience,
        open_phase=lambda phase: open_sides(
            phase,
            tools=scenario.tools,
            model=None,
            api_key=api_key,
            log_folder=path,
            audience=audience,
            begun_with={card.name: card for card in manifest.arms if card.capabilities is not None},
        ),
        begin=goes_on.begin,
        sit=run_loop,
        corpus_path=Path(corpus.card.path),
    ).follow()
    return RunResult(folder=path, summary=summary_of(folder))


def phases_of_run(manifest: Manifest, specs: tuple[ArmSpec, ...]) -> tuple[Phase, ...]:
    """Return which arms of a run that was begun are up at a time."""
    return (specs,) if manifest.arm_order == "together" else tuple((spec,) for spec in specs)


def _left_of(phases: tuple[Phase, ...], folder: RunFolder) -> tuple[Phase, ...]:
    """Return the phases that did not come to their end, and in any case the last one, which ends the run."""
    with folder.history() as history:
        over = {arm for event in history.events() if event.kind == ARMS_DONE for arm in event.data.get("arms", ())}
    left = [phase for phase in phases if not {spec.name for spec in phase} <= over]
    return tuple(left) or phases[-1:]


class _GoingOn:
    """Takes up the run folder when the first phase is up: closes what was broken off, and says what is done."""

    def __init__(self, folder: RunFolder, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._earlier: Earlier | None = None

    def begin(self, sides: tuple[Side, ...]) -> tuple[RunFolder, Earlier]:
        """Return the folder of the run, and what these sides go on from; raises `TargetError` for another build."""
        cards = {card.name: card for card in self._folder.manifest.arms}
        for side in sides:
            _refuse_other_build(cards[side.name], side)
        note_sides(self._folder, tuple(side for side in sides if cards[side.name].capabilities is None))
        if self._earlier is None:
            self._earlier = _taken_up(self._folder, self._plan)
        else:
            self._earlier = replace(self._earlier, used_s=used_s_of(self._folder))
        return self._folder, self._earlier


def same_corpus(manifest: Manifest) -> Corpus:
    """Return the corpus a run was made with; raises `CorpusError` if it is missing or has changed since."""
    where = Path(manifest.corpus.path)
    corpus = corpus_for(scenario_of(manifest), str(where) if where.exists() else manifest.corpus.name)
    if corpus.card.digest != manifest.corpus.digest:
        raise CorpusError(
            f"the corpus {corpus.card.path} is not the one the run was begun with",
            why=f"its digest is {corpus.card.digest}, the run's is {manifest.corpus.digest}",
            hint="put the old corpus back, or begin a new run",
        )
    return corpus


def _specs(manifest: Manifest, target: str | None) -> tuple[ArmSpec, ...]:
    if target is not None and len(manifest.arms) != 1:
        raise UsageError(
            "--target is for runs with one arm", why=f"this one has {len(manifest.arms)}", hint="leave it out"
        )
    return tuple(_spec(card, target) for card in manifest.arms)


def _spec(card: ArmCard, target: str | None) -> ArmSpec:
    """Return the arm as it was begun: by the build file in the manifest, for the one it came from may have changed."""
    if target is not None or card.recipe is None:
        return replace(arm_spec(card.name, target or card.given_target), sampling=card.sampling)
    return ArmSpec(name=card.name, target=card.given_target, build=card.recipe, sampling=card.sampling)


def _refuse_other_build(card: ArmCard, side: Side) -> None:
    """Raise `TargetError` if what answers now differs from the arm as it was begun in anything a turn depends on."""
    then, now = card.capabilities, side.capabilities
    if then is None:
        return
    changed = [
        f"{name.replace('_', ' ')} was {getattr(then, name)}, is {getattr(now, name)}"
        for name in _SAME_BUILD
        if getattr(then, name) != getattr(now, name)
    ]
    if changed:
        raise TargetError(
            f"{side.target} is not the build the run was begun with",
            why="; ".join(changed),
            hint="start the old build again, with the same settings, or begin a new run",
        )


def _taken_up(folder: RunFolder, plan: Plan) -> Earlier:
    """Close what was in flight when soak was stopped, record that the run goes on, and return what is done."""
    decider = decider_of(plan)
    _forget_other_classifier(folder, plan.scenario)
    with folder.writer() as writer:
        closed = close_open_starts(writer, time.time(), "soak was stopped while the answer was streaming")
        writer.flush()
        with folder.history() as history:
            done, starts, used_s = frozenset(history.done()), history.start_counts(), history.active_s()
            tally, over = take_up(history, decider), frozenset(end.key for end in history.conversation_ends())
        text = f"{len(done)} turns done, {len(closed)} were in flight and are offered again"
        event = Event(at=RealClock().wall(), kind="resumed", text=text, data={"done": len(done), "closed": len(closed)})
        writer.event(event)
    return Earlier(
        done=done,
        over=over,
        starts=starts,
        used_s=used_s,
        tally=tally,
        decider=decider,
        resumed=True,
        news=(event,),
    )


def _forget_other_classifier(folder: RunFolder, scenario: Scenario) -> None:
    """Unname the classifiers of a run whose further turns are judged by others, so that all are judged again."""
    known = folder.manifest.classifier
    if known is not None and known != classifier_fingerprint(DEFAULTS.override(dict(scenario.classify))):
        folder.update_manifest(msgspec.structs.replace(folder.manifest, classifier=None))


def take_up(history: History, decider: Watcher | None) -> Tally:
    """
    Return the counts of the turns that are done, so that `stop_if` sees the whole run and not this sitting alone.

    The decider is told of them in the order in which they began.
    """
    tally, done = Tally(), history.done()
    if decider is not None:
        for started in history.starts():
            if started.key in done:
                decider.begun(started.key)
    for record in history.records():
        if record.outcome != "indeterminate":
            tally.add(record)
            if decider is not None:
                decider.take(record)
    return tally

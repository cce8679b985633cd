"""The turn that is meant: taken from a run, or read from a turn file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from soak.app.showing import find_turn, list_turns
from soak.check import scenario_of
from soak.classify import DEFAULTS, Settings
from soak.errors import TranscriptError, UsageError
from soak.facts import CASE_SCHEMA, ArmCard, Capabilities, Case, Change, Manifest, Record, Started, TurnClass, digest_of
from soak.plan import salt_for, siblings_of
from soak.probe import body_of
from soak.replay import NOT_THE_QUESTION
from soak.store import History, RunFolder

_WORST_FIRST: tuple[TurnClass, ...] = ("garbage_loop", "early_stop", "max_tokens", "error")
_MAX_FILE_BYTES = 256 * 1024 * 1024


def case_of_run(path: Path, name: str) -> Case:
    """
    Return a turn of a run, by its key `episode:turn:pass[:arm]`, with what came back.

    Raises `UsageError` if the run has no such turn or it was never asked, `RunFolderError` for a damaged run.
    """
    folder = RunFolder.open(path)
    with folder.history() as history:
        record = history.final()[find_turn(history, name)]
        started = history.started(record.key)
        if started is None:
            raise UsageError(
                f"turn {record.key} was not asked", why=record.reason or "it was skipped", hint="take another turn"
            )
        return _case(history, folder.manifest, record, started, source=str(path))


def cases_of_run(path: Path, names: Sequence[str], arm: str | None = None) -> tuple[Case, ...]:
    """
    Return the turns of a run that have these keys, in that order; without keys all of an arm whose token ids are known.

    `arm` may be left out where the run has one. Raises `UsageError` if there is no such turn or arm, or several arms.
    """
    folder = RunFolder.open(path)
    with folder.history() as history:
        if names:
            keys = list(dict.fromkeys(find_turn(history, name) for name in names))
            _one_arm({key.arm for key in keys})
        else:
            arm = _arm_meant(folder.manifest, arm)
            keys = [key for key, record in history.final().items() if key.arm == arm and _has_ids(record)]
        pairs = [(history.last(key), history.started(key)) for key in keys]
        cases = tuple(
            _case(history, folder.manifest, record, started, source=str(path))
            for record, started in pairs
            if record is not None and started is not None
        )
    if not cases:
        raise UsageError(
            f"{path} has no turn to take",
            why="none has an answer with token ids" if not names else "none of those named was asked",
            hint="run against a server that gives token ids (vLLM: return_token_ids)",
        )
    return cases


def _one_arm(arms: set[str]) -> None:
    if len(arms) > 1:
        raise UsageError(
            "the turns are of several arms",
            why=f"they are of {', '.join(sorted(arms))}: different servers drew their tokens",
            hint="probe one arm at a time",
        )


def _has_ids(record: Record) -> bool:
    return record.observation is not None and bool(record.observation.token_ids)


def _arm_meant(manifest: Manifest, arm: str | None) -> str:
    names = [card.name for card in manifest.arms]
    if arm is None and len(names) == 1:
        return names[0]
    if arm in names:
        return str(arm)
    raise UsageError(
        "it is not clear which arm is meant" if arm is None else f"the run has no arm {arm}",
        why=f"its arms are {', '.join(names)}",
        hint=f"--arm {names[-1]}, or name turns",
    )


def failing_cases(path: Path, most: int) -> tuple[Case, ...]:
    """
    Return at most so many turns of a run that failed: loops first, and each episode's first before any one's second.

    Raises `UsageError` if none failed or several arms did, `RunFolderError` for a damaged run.
    """
    failed = [
        (record.judgement.class_, str(record.key))
        for record in list_turns(path)
        if record.outcome == "finished" and record.judgement is not None and record.judgement.class_ != "ok"
    ]
    if not failed:
        raise UsageError(f"no turn of {path} failed", why="all that ended are ok", hint="name the turns to ask again")
    return cases_of_run(path, worst_first(failed)[:most])


def worst_first(failed: Sequence[tuple[TurnClass, str]]) -> list[str]:
    """Return the keys of failing turns: loops first, errors last, and in a class each episode once before any twice."""
    seen: Counter[tuple[str, str]] = Counter()
    ranked: list[tuple[int, int, str]] = []
    for class_, key in failed:
        place = (class_, key.rsplit(":", 3)[0])
        ranked.append((_WORST_FIRST.index(class_), seen[place], key))
        seen[place] += 1
    return [key for *_, key in sorted(ranked, key=lambda one: one[:2])]


def arm_of_run(path: Path, name: str) -> ArmCard:
    """Return the card of the arm that a turn of a run was asked on."""
    folder = RunFolder.open(path)
    with folder.history() as history:
        arm = find_turn(history, name).arm
    return next(card for card in folder.manifest.arms if card.name == arm)


def settings_of_run(path: Path | None) -> Settings:
    """Return the classifiers' settings that a run was judged with, so that answers asked anew are judged alike."""
    return DEFAULTS if path is None else DEFAULTS.override(dict(scenario_of(RunFolder.open(path).manifest).classify))


def case_of_file(path: Path) -> Case:
    """Return the case in a turn file; raises `TranscriptError` if it cannot be read or is none."""
    hint = "a turn file is made by `soak probe --shrink`, or holds one soak.case/1: its name and its messages"
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise TranscriptError(f"{path} is too large", why=f"more than {_MAX_FILE_BYTES} bytes", hint=hint)
        case = msgspec.json.decode(path.read_bytes(), type=Case)
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read", why=error.strerror or str(error), hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TranscriptError(f"{path} is no turn file", why=str(error), hint=hint) from error
    why = _wrong(case)
    if why is not None:
        raise TranscriptError(f"{path} is no turn file", why=why, hint=hint)
    return case


_LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (0, 5),
    "top_p": (1e-9, 1),
    "top_k": (-1, 2**31),
    "min_p": (0, 1),
    "repetition_penalty": (1e-9, 1e9),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "max_tokens": (1, 2**31),
    "seed": (0, 2**63 - 1),
    "logprobs": (0, 20),
    "in_flight": (1, 4096),
}


def _wrong(case: Case) -> str | None:
    """Return what makes a case one that cannot be asked, None if nothing does."""
    if case.schema != CASE_SCHEMA:
        return f"its schema is {case.schema[:60]}"
    if not case.messages:
        return "it has no messages"
    for name, (least, most) in _LIMITS.items():
        value = getattr(case if hasattr(case, name) else case.sampling, name)
        if value is not None and not least <= value <= most:
            return f"its {name} is not from {least:g} to {most:g}"
    return None


def _case(history: History, manifest: Manifest, record: Record, started: Started, *, source: str) -> Case:
    _refuse_contaminated(record)
    scenario = scenario_of(manifest)
    arm = next(card for card in manifest.arms if card.name == record.key.arm)
    asked = record.observation.max_tokens if record.observation else scenario.sampling.max_tokens
    trip = record.key.pass_ // siblings_of(scenario.load)  # siblings share a salt
    case = Case(
        name=str(record.key),
        messages=history.prefix(started.prefix),
        tools=history.tools(started.tools),
        tool_mode=arm.tool_mode,
        sampling=replace(scenario.sampling, **arm.sampling, max_tokens=asked),
        seed=started.seed,
        salt=salt_for(scenario.salt, manifest.seed, record.key.episode, trip),
        logprobs=scenario.logprobs,
        extra_body=dict(scenario.extra_body),
        reference=history.message(started.answer) if started.answer else None,
        reference_tokens=started.answer_tokens,
        own_answers=scenario.replay != "recorded",
        in_flight=scenario.load.in_flight,
        observation=record.observation,
        judgement=record.judgement,
        build=arm.given_target,
        source=source,
    )
    shared = msgspec.structs.replace(case, sampling=replace(scenario.sampling, max_tokens=asked))
    return msgspec.structs.replace(case, exact=request_digest(shared, arm) == started.request)


def _refuse_contaminated(record: Record) -> None:
    """Refuse a turn that said another conversation's secret word: asked alone it could only look healthy."""
    if record.judgement and any(finding.kind == "contamination" for finding in record.judgement.findings):
        raise UsageError(
            f"turn {record.key} cannot be probed",
            why="it said another conversation's secret word, and a probe asks one conversation without the others",
            hint="the finding is certain as it is (`soak show`); run the scenario again to see it again",
        )


def request_digest(case: Case, arm: ArmCard) -> str:
    """Return the digest of the request as the run would have sent it (see `facts.Started.request`)."""
    body = body_of(case, Change(same_seed=True), 0, arm.capabilities or Capabilities(model=arm.build.model))
    return digest_of({name: value for name, value in body.items() if name not in NOT_THE_QUESTION})

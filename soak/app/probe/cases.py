"""The turn that is meant: taken from a run, or read from a turn file."""

from dataclasses import replace
from pathlib import Path

import msgspec

from soak.app.showing import find_turn
from soak.check import scenario_of
from soak.errors import TranscriptError, UsageError
from soak.facts import CASE_SCHEMA, ArmCard, Capabilities, Case, Change, Manifest, Record, Started, digest_of
from soak.plan import salt_for, siblings_of
from soak.probe import body_of
from soak.replay import NOT_THE_QUESTION
from soak.store import History, RunFolder

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


def arm_of_run(path: Path, name: str) -> ArmCard:
    """Return the card of the arm that a turn of a run was asked on."""
    folder = RunFolder.open(path)
    with folder.history() as history:
        arm = find_turn(history, name).arm
    return next(card for card in folder.manifest.arms if card.name == arm)


def case_of_file(path: Path) -> Case:
    """Return the case in a turn file; raises `TranscriptError` if it cannot be read or is none."""
    hint = "a turn file is made by `soak repro`, or holds one soak.case/1: its name and its messages"
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise TranscriptError(f"{path} is too large", why=f"more than {_MAX_FILE_BYTES} bytes", hint=hint)
        case = msgspec.json.decode(path.read_bytes(), type=Case)
    except OSError as error:
        raise TranscriptError(f"{path} cannot be read", why=error.strerror or str(error), hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TranscriptError(f"{path} is no turn file", why=str(error), hint=hint) from error
    if case.schema != CASE_SCHEMA or not case.messages:
        why = "it has no messages" if not case.messages else f"its schema is {case.schema[:60]}"
        raise TranscriptError(f"{path} is no turn file", why=why, hint=hint)
    return case


def _case(history: History, manifest: Manifest, record: Record, started: Started, *, source: str) -> Case:
    scenario = scenario_of(manifest)
    arm = next(card for card in manifest.arms if card.name == record.key.arm)
    asked = record.observation.max_tokens if record.observation else scenario.sampling.max_tokens
    trip = record.key.pass_ // siblings_of(scenario.load)  # siblings share a salt
    case = Case(
        name=str(record.key),
        messages=history.prefix(started.prefix),
        tools=history.tools(started.tools),
        tool_mode=arm.tool_mode,
        sampling=replace(scenario.sampling, max_tokens=asked),
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
    return msgspec.structs.replace(case, exact=request_digest(case, arm) == started.request)


def request_digest(case: Case, arm: ArmCard) -> str:
    """Return the digest of the request as the run would have sent it (see `facts.Started.request`)."""
    body = body_of(case, Change(same_seed=True), 0, arm.capabilities or Capabilities(model=arm.build.model))
    return digest_of({name: value for name, value in body.items() if name not in NOT_THE_QUESTION})

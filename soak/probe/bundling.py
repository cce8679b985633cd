"""The files of a reproducer bundle, from the smallest form of a failure and the answers it gave: pure."""

import hashlib
import json
import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from soak.facts import (
    ArmCard,
    Capabilities,
    Case,
    Change,
    Observation,
    Promise,
    Trial,
    TurnClass,
    encode,
)
from soak.probe.outcomes import telling
from soak.probe.question import body_of
from soak.probe.shrinking import Form
from soak.stats import prediction

SCRIPT = "reproduce.py"


def bundle_files(
    form: Form,
    trials: Sequence[Sequence[Trial]],
    failure: TurnClass,
    card: ArmCard | None,
    capabilities: Capabilities,
    *,
    repeats: int,
    soak_version: str,
) -> dict[str, bytes]:
    """
    Return the files by name: what is asked, what is expected, what it was seen on, and the script that asks again.

    `trials` are those of each case of the form. Needs only Python to be used; nothing in it is a key.
    """
    promise = promise_of(form, trials, failure, repeats=repeats, soak_version=soak_version)
    lines = [_line(case, of_case, capabilities) for case, of_case in zip(form.cases, trials, strict=True)]
    told = {"arm": card, "seen_on": trials[0][0].bench} if card is not None else {"seen_on": trials[0][0].bench}
    return {
        "README.md": _readme(form, promise, card).encode("utf-8", "replace"),
        SCRIPT: script().encode(),
        "bodies.jsonl": b"".join(lines),
        "expected.json": encode(promise) + b"\n",
        "environment.json": encode(told) + b"\n",
        "answers.jsonl": b"".join(_stored(trial) for of_case in trials for trial in of_case),
    }


def change_of(form: Form) -> Change:
    """Return the change with which a form is asked: its key among the trials tells what was asked along with it."""
    if len(form.cases) == 1 and form.in_flight == 1:
        return Change()
    others = hashlib.sha256(encode([case.digest for case in form.cases])).hexdigest()[:16]
    return Change(in_flight=form.in_flight, among=others)


def promise_of(
    form: Form, trials: Sequence[Sequence[Trial]], failure: TurnClass, *, repeats: int, soak_version: str
) -> Promise:
    """
    Return what the bundle promises of `repeats` further rounds, and how far its own checker can be trusted.

    What was not answered promises nothing, unless the failure is `error`; at least one trial must count.

    The checker learns from answers how an early stop looks. So that what it counts and where it agrees is not flattered
    by having seen them, each half of the rounds is checked with what the other half taught.
    """
    asked = [trial for of_case in trials for trial in of_case]
    every = telling(asked, silence_fails=failure == "error")
    classes = Counter(class_of(trial) for trial in every)
    size = len(every)
    draft = Promise(
        failure=failure,
        asked=size,
        failed=classes[failure],
        script_failed=0,
        classes={name: number for name, number in classes.items() if number},
        repeats=repeats,
        low=0,
        high=0,
        in_flight=form.in_flight,
        checked=size,
        checker_agrees=0,
        soak_version=soak_version,
    )
    halves = [[trial for trial in every if trial.repeat % 2 == half] for half in (0, 1)]
    called = [
        (name, trial)
        for half, other in (halves, halves[::-1])
        for name, trial in zip(checked([one.observation for one in half], _taught(draft, other)), half, strict=True)
    ]
    failed = sum(name == failure for name, _ in called)
    low, high = prediction(failed, size, repeats * len(form.cases))
    agrees = sum(name == class_of(trial) for name, trial in called)
    return msgspec.structs.replace(
        _taught(draft, every), script_failed=failed, low=low, high=high, checker_agrees=agrees
    )


def _taught(draft: Promise, trials: Sequence[Trial]) -> Promise:
    """Return the promise with what these answers teach the script of how an early stop looks."""
    early = [trial for trial in trials if class_of(trial) == "early_stop" and _plain(trial)]
    return msgspec.structs.replace(
        draft,
        early_texts=tuple(sorted({_digest(trial.observation.content.strip()) for trial in early})),
        short_chars=_short_chars(trials),
    )


def class_of(trial: Trial) -> TurnClass:
    """Return the class of a trial; what could not be judged is an error."""
    return trial.judgement.class_ if trial.judgement else "error"


def checked(observations: Sequence[Observation], promise: Promise) -> list[str]:
    """Return the classes that the bundle's own script gives stored answers."""
    names, expected = _script_names(), json.loads(encode(promise))
    return [names["class_of"](_as_read(one), expected) for one in observations]


def _as_read(observation: Observation) -> dict[str, Any]:
    """Return an answer as the bundle's script reads it from the stream."""
    return {
        "content": observation.content,
        "reasoning": observation.reasoning,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in observation.tool_calls],
        "finish_reason": observation.finish_reason,
        "error": observation.error or "",
    }


def script() -> str:
    """Return the bundle's script: standard library only."""
    return (resources.files("soak.probe") / "bundle" / SCRIPT).read_text(encoding="utf-8")


def _script_names() -> Mapping[str, Any]:
    return runpy.run_path(str(Path(str(resources.files("soak.probe"))) / "bundle" / SCRIPT), run_name="reproduce")


def _short_chars(trials: Sequence[Trial]) -> int:
    """Return a length that parts the answers that stopped early from the ok ones without calls; 0 where none does."""
    said = [(class_of(trial), len(trial.observation.content.strip())) for trial in trials if _plain(trial)]
    early = [size for name, size in said if name == "early_stop"]
    fine = [size for name, size in said if name == "ok"]
    if not early or not fine or max(early) >= min(fine):
        return 0
    return max(early) + 1


def _plain(trial: Trial) -> bool:
    return not trial.observation.tool_calls


def _line(case: Case, trials: Sequence[Trial], capabilities: Capabilities) -> bytes:
    body = body_of(case, trials[0].change, trials[0].repeat, capabilities)
    body.pop("model", None)
    return encode({"body": body, "seeds": [trial.seed for trial in trials if trial.seed is not None]}) + b"\n"


def _stored(trial: Trial) -> bytes:
    observation = trial.observation
    return (
        encode(
            {
                "id": f"{trial.case[7:15]}:{trial.repeat}",
                "class": class_of(trial),
                "reason": trial.judgement.reason if trial.judgement else "",
                "output": observation.content,
                "reasoning": observation.reasoning,
                "tool_calls": observation.tool_calls,
                "finish_reason": observation.finish_reason,
                "max_tokens": observation.max_tokens,
                "token_ids": observation.token_ids,
            }
        )
        + b"\n"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _readme(form: Form, promise: Promise, card: ArmCard | None) -> str:
    messages = sum(len(case.messages) for case in form.cases)
    several = f"{len(form.cases)} conversations" if len(form.cases) > 1 else "one conversation"
    lines = [
        f"# A reproducer: {promise.failure}",
        "",
        f"{promise.failed} of {promise.asked} answers were `{promise.failure}`"
        f" ({', '.join(f'{name} {number}' for name, number in promise.classes.items())}).",
        f"Asked: {several}, {messages} messages in all, {form.in_flight} request(s) at a time.",
        "",
        "    python reproduce.py http://localhost:8000",
        "",
        f"Python 3.9 or newer, nothing to install. It sends {promise.repeats * len(form.cases)} requests, classes each"
        f" answer, and ends with a line such as `{promise.failure} in {promise.script_failed} of {promise.asked}"
        f" (expected {promise.low} to {promise.high})`; exit code 0 where the failure came about.",
        "",
        "| file | what it is |",
        "| --- | --- |",
        "| bodies.jsonl | the requests, without the model's name, and their seeds |",
        "| expected.json | what was seen, and what to expect (95 % prediction interval) |",
        "| answers.jsonl | the answers that were seen, with soak's class and reason for each |",
        "| environment.json | engine, versions and settings it was seen on |",
        "",
        f"The script's plain checker agrees with soak's classifiers on {promise.checker_agrees} of {promise.checked}"
        f" answers, and calls {promise.script_failed} of them `{promise.failure}`, each half of them judged with what"
        " the other half taught it: what is expected is counted its way. `soak classify answers.jsonl` is the full"
        " judgement.",
        "What the script is answered it writes to reproduced.jsonl.",
        "With curl: take `body` of a line of bodies.jsonl, add `model`, and POST it to /v1/chat/completions.",
    ]
    return "\n".join([*lines, *_environment(card)]) + "\n"


def _environment(card: ArmCard | None) -> list[str]:
    if card is None:
        return []
    entries = card.environment.entries if card.environment else {}
    rows = [f"| {_quoted(name)} | {_quoted(entry.value)} |" for name, entry in sorted(entries.items())]
    build = card.build
    name = f"{build.engine or 'unknown engine'} {build.version or ''}"
    head = f"Seen on: {_quoted(name)}, {_quoted(build.model)}"
    return ["", head, "", "| setting | value |", "| --- | --- |", *rows] if rows else ["", head]


def _quoted(text: str) -> str:
    """
    Return text from outside as a code span, in which markdown, HTML and links are letters.

    What would end the span or a table's cell is replaced; environment.json holds the text to the letter.
    """
    shown = "".join(one if one.isprintable() else " " for one in text[:2000])
    flat = " ".join(shown.replace("`", "'").replace("|", "¦").split())[:200].strip()
    return f"`{flat or '-'}`"

"""One field of `Sampling`, given alone: by a grid's level, or for one arm of a run."""

from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from soak.errors import UsageError
from soak.facts import Sampling, encode
from soak.scenario.sentences import problems_of, suggestion
from soak.scenario.yaml_tree import parse_value

SAMPLING_FIELDS = tuple(field.name for field in fields(Sampling))
_PREFIX = "sampling."
_SHARED = "max_tokens"
_adapter = TypeAdapter(Sampling)


def sampling_problem(field: str, value: Any) -> str | None:
    """Return what is wrong with this value of a sampling field, as a sentence; None if nothing is."""
    if field not in SAMPLING_FIELDS:
        return f"{field} is no field of sampling" + suggestion(field, SAMPLING_FIELDS)
    try:
        _adapter.validate_json(encode({field: value}), strict=True)
    except ValidationError as error:
        return problems_of(error, Sampling)[0].text
    return None


def arm_sampling(arm: str, key: str, text: str) -> tuple[str, Any]:
    """
    Return the sampling field and value that `--set ARM:KEY=TEXT` gives one arm; raises `UsageError` for another field.

    `max_tokens` must be the same in all arms: which class an answer has depends on it.
    """
    field = key.removeprefix(_PREFIX)
    try:
        value = parse_value(text)
        problem = sampling_problem(field, value) if key.startswith(_PREFIX) else f"{key[:80]} is no field of sampling"
    except ValueError as error:
        value, problem = None, str(error)
    if field == _SHARED and problem is None:
        problem = "must be the same in all arms, for the classes depend on it"
    if problem is not None:
        raise UsageError(
            f"--set {arm}:{key[:80]}={text[:80]} cannot be used",
            why=problem,
            hint=f"one arm may have sampling of its own: --set {arm}:sampling.repetition_penalty=1.1",
        )
    return field, value

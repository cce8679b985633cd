"""From a case and a change to the body of a request: pure, so that the same repeat is the same request."""

from dataclasses import asdict, replace
from typing import Any

from soak.client import compose
from soak.errors import UsageError
from soak.facts import Capabilities, Case, Change, Sampling
from soak.plan import number_from

_SEED_MAX = 2**31 - 1


def seed_of(case: Case, change: Change, repeat: int) -> int | None:
    """
    Return the seed of a repeat: the case's own for the first one and with `same_seed`, else one drawn from it.

    It does not depend on the rest of the change. None where the case was asked without a seed and `same_seed` is set.
    """
    if change.same_seed or (repeat == 0 and case.seed is not None):
        return case.seed
    return 1 + number_from("probe", case.seed or 0, case.name, repeat) % _SEED_MAX


def body_of(case: Case, change: Change, repeat: int, capabilities: Capabilities, occasion: str = "") -> dict[str, Any]:
    """
    Return the JSON of POST /chat/completions for one repeat; raises `UsageError` for a sampling field there is not.

    A salt of the change is sent as `cache_salt` where the engine is vLLM, so that the prompt's tokens stay the same;
    elsewhere it stands at the head of the system prompt. All salts look alike, and each `occasion` has its own: a
    server that has run since an earlier one still holds what was cached under those.
    """
    sampling = _changed(case.sampling, change.sampling)
    kept = {name: value for name, value in case.extra_body.items() if name not in change.sampling}
    extra = {**kept, **change.extra_body}
    salt = case.salt
    if (wanted := _salt_of(case, change, repeat, occasion)) is not None:
        if capabilities.engine == "vllm":
            extra["cache_salt"] = wanted
        else:
            salt = f"[{wanted}]"
    return compose(
        case.messages,
        case.tools,
        mode=case.tool_mode,
        model=capabilities.model,
        sampling=sampling,
        max_tokens=sampling.max_tokens,
        seed=seed_of(case, change, repeat),
        salt=salt,
        capabilities=capabilities,
        logprobs=case.logprobs,
        extra_body=extra,
    )


def _salt_of(case: Case, change: Change, repeat: int, occasion: str) -> str | None:
    if not change.salted and change.salt is None:
        return None
    own = f"{case.seed or 0} {case.name} {repeat}" if change.salted else ""
    return f"probe {number_from('salt', occasion, own, change.salt or '') % 2**64:016x}"


def _changed(sampling: Sampling, fields: dict[str, Any]) -> Sampling:
    unknown = sorted(fields.keys() - asdict(sampling).keys())
    if unknown:
        raise UsageError(
            f"sampling has no field {unknown[0]}",
            why=f"its fields are {', '.join(asdict(sampling))}",
            hint="name one of them; other fields of a request go into extra_body",
        )
    return replace(sampling, **fields)

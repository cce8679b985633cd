"""Rules across the fields of a scenario, checked section by section so that one mistake does not hide another."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from soak.facts import Budget, Deadlines, Decide, Load, Rates, Sandbox, ThinkTime, encode
from soak.scenario.sentences import Problem, suggestion
from soak.scenario.thresholds import threshold_problem

Section = TypeVar("Section")

_SHAPES = ("overlap", "staggered", "abort", "pressure", "idle_gaps")

# What soak itself puts into a request body: an extra that replaces one of these would change what is measured.
RESERVED_IN_BODY = frozenset(
    {
        "messages",
        "model",
        "tools",
        "stream",
        "stream_options",
        "n",
        "seed",
        "max_tokens",
        "max_completion_tokens",
        "ignore_eos",
        "return_token_ids",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "logprobs",
        "top_logprobs",
    }
)


def cross_field_problems(value: dict[str, Any], known_classify: Collection[str] | None) -> list[Problem]:
    """Return the problems that need more than one field to be seen, in a scenario's plain values."""
    problems = [
        *_checked(value, "load", Load, _load),
        *_checked(value, "load", Load, _shapes),
        *_recorded_only(value),
        *_checked(value, "think_time", ThinkTime, _think_time),
        *_checked(value, "deadlines", Deadlines, _deadlines),
        *_thresholds(value.get("thresholds")),
        *_classify(value.get("classify"), known_classify),
        *_extra_body(value.get("extra_body")),
        *_replay(value.get("replay")),
    ]
    problems += _checked(value, "sandbox", Sandbox, _sandbox)
    if "budget" in value:
        problems += _checked(value, "budget", Budget, _budget)
    if value.get("decide") is not None and value.get("replay", "recorded") != "recorded":
        text = "needs turns that are planned beforehand: leave it out, or say replay: recorded"
        problems.append(Problem(("decide",), text))
    if value.get("decide") is not None:
        problems += _checked(value, "decide", Decide, _decide)
    return problems


def _checked(
    value: dict[str, Any], name: str, kind: type[Section], rule: Callable[[Section], Iterator[Problem]]
) -> list[Problem]:
    """Apply `rule` to one section if its own types and ranges are right."""
    try:
        section = TypeAdapter(kind).validate_json(encode(value.get(name, {})), strict=True)
    except ValidationError:
        return []
    return list(rule(section))


def _load(load: Load) -> Iterator[Problem]:
    if load.shape == "arrival" and load.rate_per_min is None:
        yield Problem(("load",), "shape arrival needs rate_per_min")
    if load.shape != "arrival" and load.rate_per_min is not None:
        yield Problem(("load", "rate_per_min"), f"belongs to shape arrival, but the shape is {load.shape}")
    if load.shape == "ramp":
        for name in ("from_in_flight", "over_s"):
            if getattr(load, name) is None:
                yield Problem(("load",), f"shape ramp needs {name}")
        if load.from_in_flight is not None and load.from_in_flight > load.in_flight:
            text = f"must be at most in_flight ({load.in_flight}), is {load.from_in_flight}"
            yield Problem(("load", "from_in_flight"), text)
        return
    for name in ("from_in_flight", "over_s"):
        if getattr(load, name) is not None:
            yield Problem(("load", name), f"belongs to shape ramp, but the shape is {load.shape}")


def _shapes(load: Load) -> Iterator[Problem]:
    """What the shapes ask of the conversations in flight, and of themselves."""
    for name, wanted in (
        ("overlap", load.overlap.siblings if load.overlap else 0),
        ("staggered", load.staggered.together if load.staggered else 0),
    ):
        if wanted > load.in_flight:
            text = f"needs in_flight of at least {wanted}, which is {load.in_flight}: they would wait for each other"
            yield Problem(("load", name), text)
    if load.abort is not None and load.abort.min_chars > load.abort.max_chars:
        text = f"must be at most max_chars ({load.abort.max_chars}), is {load.abort.min_chars}"
        yield Problem(("load", "abort", "min_chars"), text)
    if load.idle_gaps is not None and load.idle_gaps.min_s > load.idle_gaps.max_s:
        text = f"must be at most max_s ({load.idle_gaps.max_s:g}), is {load.idle_gaps.min_s:g}"
        yield Problem(("load", "idle_gaps", "min_s"), text)
    if load.pressure is not None and load.shape != "closed":
        yield Problem(("load", "pressure"), f"belongs to shape closed, but the shape is {load.shape}")
    if load.pressure is not None and load.pressure.cap <= load.in_flight:
        text = f"must be above in_flight ({load.in_flight}), where it begins; is {load.pressure.cap}"
        yield Problem(("load", "pressure", "cap"), text)


def _recorded_only(value: dict[str, Any]) -> Iterator[Problem]:
    """Yield what is planned of turns that are made at run time only."""
    mode, load = value.get("replay", "recorded"), value.get("load")
    if mode == "recorded":
        return
    text = f"needs turns that are planned beforehand: leave it out, or say replay: recorded (it is {mode})"
    for name in _SHAPES:
        if isinstance(load, dict) and load.get(name) is not None:
            yield Problem(("load", name), text)
    if value.get("canaries") is True:
        yield Problem(("canaries",), text)


def _think_time(think: ThinkTime) -> Iterator[Problem]:
    if think.mode == "fixed" and think.fixed_s is None:
        yield Problem(("think_time",), "mode fixed needs fixed_s")
    if think.mode != "fixed" and think.fixed_s is not None:
        yield Problem(("think_time", "fixed_s"), f"belongs to mode fixed, but the mode is {think.mode}")


def _deadlines(deadlines: Deadlines) -> Iterator[Problem]:
    for name in ("first_chunk_s", "gap_s"):
        limit_s = getattr(deadlines, name)
        if limit_s > deadlines.turn_s:
            text = f"must be at most turn_s ({deadlines.turn_s:g}), is {limit_s:g}"
            yield Problem(("deadlines", name), text)


def _budget(budget: Budget) -> Iterator[Problem]:
    names = ("hours", "minutes", "passes", "turns")
    given = [name for name in names if getattr(budget, name) is not None]
    if len(given) != 1:
        told = " and ".join(given) if given else "none"
        yield Problem(("budget",), f"must have exactly one of {', '.join(names)}; has {told}")


def _decide(decide: Decide) -> Iterator[Problem]:
    for i, name in enumerate(decide.classes):
        if name in decide.classes[:i]:
            yield Problem(("decide", "classes", i), f"{name} is named twice")
    if "any_failure" in decide.classes and len(decide.classes) > 1:
        yield Problem(("decide", "classes"), "any_failure holds every class, so it stands alone")
    if decide.rates is not None:
        yield from _rates(decide.rates)


def _rates(rates: Rates) -> Iterator[Problem]:
    if rates.good is not None and (rates.bad is None or rates.bad <= rates.good):
        yield Problem(("decide", "rates"), "good needs a bad that is greater")
    if rates.likely_good is not None and (rates.good is None or rates.likely_good > rates.good):
        yield Problem(("decide", "rates", "likely_good"), "needs a good that is not less")
    if rates.likely_bad is not None and (rates.bad is None or rates.likely_bad < rates.bad):
        yield Problem(("decide", "rates", "likely_bad"), "needs a bad that is not greater")


def _sandbox(sandbox: Sandbox) -> Iterator[Problem]:
    for name in ("image", "runtime"):
        if sandbox.kind != "container" and getattr(sandbox, name) is not None:
            yield Problem(("sandbox", name), f"belongs to kind container, but the kind is {sandbox.kind}")


def _thresholds(section: Any) -> Iterator[Problem]:
    if not isinstance(section, dict):
        return
    for name in ("pass_if", "stop_if"):
        expressions = section.get(name)
        for i, text in enumerate(expressions if isinstance(expressions, list) else ()):
            problem = threshold_problem(text) if isinstance(text, str) else None
            if problem is not None:
                yield Problem(("thresholds", name, i), f"{text[:80]!r}: {problem}")


def _classify(section: Any, known: Collection[str] | None) -> Iterator[Problem]:
    if not isinstance(section, dict) or known is None:
        return
    for name in section:
        if name not in known:
            yield Problem(("classify", name), "unknown setting of the classifiers" + suggestion(name, sorted(known)))


def _extra_body(section: Any) -> Iterator[Problem]:
    if not isinstance(section, dict):
        return
    for name in section:
        if name in RESERVED_IN_BODY:
            why = (
                "pins the length, which hides loops and early stops"
                if name == "ignore_eos"
                else "is set by soak itself"
            )
            yield Problem(("extra_body", name), why)


def _replay(mode: Any) -> Iterator[Problem]:
    if mode == "proxy":
        yield Problem(("replay",), "proxy is no way to replay: it marks what `soak proxy` has kept of live traffic")

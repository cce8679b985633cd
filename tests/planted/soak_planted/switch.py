"""
What is planted: a text such as `wrong_token:0.001,kv_off_by_one;min_concurrency=4;seed=7`, checked and typed.

Items stand between commas or semicolons. `name` or `name:number` is a fault; `only_spec`, `only_cache`,
`min_concurrency=N`, `from_version=X.Y` and `seed=N` hold for all of them. An empty text plants nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace


def _rate(number: float) -> bool:
    return 0 < number <= 1


def _factor(number: float) -> bool:
    return 0.01 <= number <= 100


# Which numbers a fault takes; the second is what it takes for none, None where it must have one.
FAULTS: dict[str, tuple[Callable[[float], bool], float | None]] = {
    "stale_cache": (_rate, 1.0),
    "kv_off_by_one": (_rate, 1.0),
    "skip_verify": (_rate, None),
    "lenient": (_rate, None),
    "wrong_token": (_rate, None),
    "previous_distribution": (_rate, None),
    "wrong_eos": (_rate, None),
    "garbage_loop": (_rate, None),
    "temperature": (_factor, None),
    "ignore_top_p": (_rate, 1.0),
}
TEXT_CHARS = 1000


@dataclass(frozen=True)
class Factors:
    """When the faults fire: all that is set must hold."""

    only_spec: bool = False
    only_cache: bool = False
    min_concurrency: int = 1
    from_version: tuple[int, ...] = ()

    def hold(self, *, speculates: bool, hit: bool, running: int, version: tuple[int, ...]) -> bool:
        """Whether they hold for a request that had a prefix-cache hit or not, in a step of `running` requests."""
        return (
            (speculates or not self.only_spec)
            and (hit or not self.only_cache)
            and running >= self.min_concurrency
            and version >= self.from_version
        )


@dataclass(frozen=True)
class Switch:
    """What a text plants: `faults` from name to number."""

    text: str = ""
    faults: dict[str, float] = field(default_factory=dict)
    factors: Factors = Factors()
    seed: int = 0

    @property
    def sentence(self) -> str:
        """What is planted, for people."""
        return f"planted {self.text}" if self.faults else "nothing planted"


def parse(text: str) -> Switch:
    """Return what `text` plants; raises `ValueError` naming the item that means nothing."""
    if len(text) > TEXT_CHARS:
        raise ValueError(f"a switch is at most {TEXT_CHARS} characters long")
    switch = Switch(text=text.strip())
    for item in filter(None, (part.strip() for part in re.split("[,;]", text))):
        name, colon, number = item.partition(":")
        if name in FAULTS:
            switch = replace(switch, faults=switch.faults | {name: _number(name, number if colon else None)})
        else:
            switch = _setting(switch, item)
    return switch


def version_of(text: str) -> tuple[int, ...]:
    """Return the numbers a version begins with: (0, 32, 0) of `0.32.0+cpu`."""
    found = re.match(r"\d{1,6}(?:\.\d{1,6}){0,5}", text)
    if not found:
        raise ValueError(f"{text[:60]!r} is no version")
    return tuple(int(part) for part in found.group().split("."))


def _number(name: str, text: str | None) -> float:
    allowed, default = FAULTS[name]
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = None
    if number is None or not allowed(number):
        raise ValueError(f"{name} takes a number {'from 0.01 to 100' if allowed is _factor else 'above 0, at most 1'}")
    return number


def _setting(switch: Switch, item: str) -> Switch:
    name, _, value = (part.strip() for part in item.partition("="))
    if item in ("only_spec", "only_cache"):
        return replace(switch, factors=replace(switch.factors, **{item: True}))
    if name == "from_version":
        return replace(switch, factors=replace(switch.factors, from_version=version_of(value)))
    if name in ("min_concurrency", "seed") and re.fullmatch(r"\d{1,9}", value):
        if name == "seed":
            return replace(switch, seed=int(value))
        return replace(switch, factors=replace(switch.factors, min_concurrency=int(value)))
    known = (*FAULTS, "only_spec", "only_cache", "min_concurrency=N", "from_version=X.Y", "seed=N")
    raise ValueError(f"cannot plant {item[:60]!r}; known are {', '.join(known)}")

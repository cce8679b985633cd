"""What options say that several commands have: shares, and changes to a scenario."""

from collections.abc import Sequence

from soak.errors import UsageError


def share_of(option: str, text: str | None) -> float | None:
    """Return a share given as `0.5%` or `0.005`, None for None; raises `UsageError` for what is none from 0 to 1."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"{option} {text} cannot be used", why="it is no share from 0 to 1", hint=f"{option} 0.5%")
    return value


def changes_of(sets: Sequence[str]) -> dict[str, str]:
    """Return the changes that `--set key=value` make, by dotted key; raises `UsageError` for what is not key=value."""
    changes: dict[str, str] = {}
    for text in sets:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set {text} cannot be read", why="it is not key=value", hint="--set load.in_flight=4")
        changes[key.strip()] = value
    return changes

"""A scenario by its name or path."""

from pathlib import Path

from soak.errors import ScenarioError
from soak.shelves import meant, on_shelves


def available_scenarios() -> dict[str, Path]:
    """Return the scenarios that can be given by name, in alphabetical order."""
    return on_shelves("scenarios", "*.yaml")


def find_scenario(name_or_path: str) -> Path:
    """Return the file of a scenario given by path or by name; raises `ScenarioError` naming those that exist."""
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = available_scenarios()
    if name_or_path in known:
        return known[name_or_path]
    raise ScenarioError(
        f"no scenario {name_or_path!r}",
        problems=(f"it is no file, and the scenarios known by name are: {', '.join(known) or 'none'}",),
        hint=f"{meant(name_or_path, known)}give one of these names or the path of a YAML file",
    )

"""Where scenarios live: the working folder's, the checkout's, and those a wheel carries."""

import difflib
from pathlib import Path

import soak
from soak.errors import ScenarioError

_PACKAGE = Path(soak.__file__).parent


def scenario_folders() -> tuple[Path, ...]:
    """Return the folders searched for a scenario by name, first match wins."""
    return (Path("scenarios"), _PACKAGE.parent / "scenarios", _PACKAGE / "_data" / "scenarios")


def available_scenarios() -> dict[str, Path]:
    """Return the scenarios that can be given by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for folder in scenario_folders():
        for path in folder.glob("*.yaml"):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def find_scenario(name_or_path: str) -> Path:
    """Return the file of a scenario given by path or by name; raises `ScenarioError` naming those that exist."""
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = available_scenarios()
    if name_or_path in known:
        return known[name_or_path]
    near = difflib.get_close_matches(name_or_path, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ScenarioError(
        f"no scenario {name_or_path!r}",
        problems=(f"it is no file, and the scenarios known by name are: {', '.join(known) or 'none'}",),
        hint=f"{hint}give one of these names or the path of a YAML file",
    )

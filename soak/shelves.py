"""
Where things that come with soak are found by name: scenarios, tasks, corpora and builds; and where extras come from.

Three shelves of each kind, the first that has the name wins: the working folder's, the checkout's, and the one an
installed wheel carries.
"""

import difflib
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent


def carried(kind: str) -> tuple[Path, ...]:
    """Return where the folder `kind` is that comes with soak: in the checkout, or in the wheel."""
    return (_PACKAGE.parent / kind, _PACKAGE / "_data" / kind)


def on_shelves(kind: str, pattern: str, is_one: Callable[[Path], bool] = Path.is_file) -> dict[str, Path]:
    """Return by name, in alphabetical order, what matches `pattern` in the folders `kind` and satisfies `is_one`."""
    found: dict[str, Path] = {}
    for shelf in (Path(kind), *carried(kind)):
        for path in shelf.glob(pattern):
            if is_one(path):
                found.setdefault(path.stem if path.is_file() else path.name, path)
    return dict(sorted(found.items()))


def meant(name: str, known: Mapping[str, Path]) -> str:
    """Return "did you mean …? " where a known name is near, else nothing."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}? " if near else ""


def install_command(extra: str, package: Path = _PACKAGE) -> str:
    """
    Return what to type to install an extra of this soak, whose modules lie in `package`.

    A checkout is installed from its folder: on the package index `soak` is the name of somebody else's package, which
    pip would take in an environment other than this one.
    """
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{checkout}[{extra}]')}"
    return f"pip install 'soak[{extra}]'"

"""
Write, as a JSON list, what the named installed packages require here, without the packages named after `--`.

`python -I wanted.py RESULT_FILE PACKAGE… -- DROPPED…`
"""

import importlib
import json
import re
import sys
from importlib.metadata import requires
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Evaluate the markers of each requirement for this Python and write those that hold, with their version bounds."""
    split = arguments.index("--")
    packages, dropped = arguments[1:split], {_plain(name) for name in arguments[split + 1 :]}
    # pip carries its own copy of `packaging`, and pip is in every environment that installs anything
    requirement_of = importlib.import_module("pip._vendor.packaging.requirements").Requirement
    wanted: list[str] = []
    for text in (text for package in packages for text in requires(package) or ()):
        requirement = requirement_of(text)
        holds = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if holds and _plain(requirement.name) not in dropped:
            requirement.marker = None
            wanted.append(str(requirement))
    Path(arguments[0]).write_text(json.dumps(wanted), "utf-8")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(sys.argv[1:])

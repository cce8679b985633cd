"""
Print, as a JSON list, what the named installed packages require here, without the packages named after `--`.

`python -I wanted.py PACKAGE… -- DROPPED…`
"""

import importlib
import json
import re
import sys
from importlib.metadata import requires


def main(arguments: list[str]) -> None:
    """Evaluate the markers of each requirement for this Python and print those that hold, with their version bounds."""
    split = arguments.index("--")
    packages, dropped = arguments[:split], {_plain(name) for name in arguments[split + 1 :]}
    requirement_of = importlib.import_module("packaging.requirements").Requirement
    wanted: list[str] = []
    for text in (text for package in packages for text in requires(package) or ()):
        requirement = requirement_of(text)
        holds = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if holds and _plain(requirement.name) not in dropped:
            requirement.marker = None
            wanted.append(str(requirement))
    sys.stdout.write(json.dumps(wanted) + "\n")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(sys.argv[1:])

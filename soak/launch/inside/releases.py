"""
Write, as a JSON list, the releases of a package that pip would install here: [[version, yanked], …], oldest first.

`python -I releases.py RESULT_FILE PACKAGE`. Asks where pip is configured to look; pre-releases are left out. Uses the
pip of the Python it runs under, else the one that lies in its `ensurepip`.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> None:
    """Ask the indexes as `pip index versions` does, and keep what that command does not tell: what was yanked."""
    _find_pip()
    command = importlib.import_module("pip._internal.commands").create_command("index")
    target = importlib.import_module("pip._internal.cli.cmdoptions").make_target_python
    options, _ = command.parse_args(["versions", arguments[1]])
    with command.main_context():
        session = command.get_default_session(options)
        finder = command._build_package_finder(options, session, target(options), options.ignore_requires_python)
        found: dict[Any, list[bool]] = {}
        for candidate in finder.find_all_candidates(arguments[1]):
            if not candidate.version.is_prerelease:
                found.setdefault(candidate.version, []).append(candidate.link.is_yanked)
    releases = [[str(version), all(found[version])] for version in sorted(found)]
    Path(arguments[0]).write_text(json.dumps(releases), "utf-8")


def _find_pip() -> None:
    try:
        importlib.import_module("pip")
    except ImportError:
        (folder,) = importlib.import_module("ensurepip").__path__
        sys.path.extend(map(str, Path(folder, "_bundled").glob("pip-*.whl")))


if __name__ == "__main__":
    main(sys.argv[1:])

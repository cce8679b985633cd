"""
Import the named modules and write their versions as a JSON object; fail if a module named after `--` is there.

`python -I checkup.py RESULT_FILE MODULE… -- ABSENT…`
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Exit with a sentence on what does not fit, else write the versions of the modules' top packages."""
    split = arguments.index("--")
    unwanted = [name for name in arguments[split + 1 :] if importlib.util.find_spec(name)]
    if unwanted:
        sys.exit(f"ImportError: {', '.join(unwanted)} must not be installed beside this torch")
    versions: dict[str, str] = {}
    for name in arguments[1:split]:
        sys.stderr.write(f"importing {name}\n")
        importlib.import_module(name)
        top = name.partition(".")[0]
        versions[top] = str(getattr(sys.modules[top], "__version__", ""))
    Path(arguments[0]).write_text(json.dumps(versions), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

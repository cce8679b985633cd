"""
Import the named modules and print their versions as a JSON object; fail if a module named after `--` is there.

`python -I checkup.py MODULE… -- ABSENT…`
"""

import importlib
import importlib.util
import json
import sys


def main(arguments: list[str]) -> None:
    """Exit with a sentence on what does not fit, else print the versions of the modules' top packages."""
    split = arguments.index("--")
    unwanted = [name for name in arguments[split + 1 :] if importlib.util.find_spec(name)]
    if unwanted:
        sys.exit(f"ImportError: {', '.join(unwanted)} must not be installed beside this torch")
    versions: dict[str, str] = {}
    for name in arguments[:split]:
        sys.stderr.write(f"importing {name}\n")
        importlib.import_module(name)
        top = name.partition(".")[0]
        versions[top] = str(getattr(sys.modules[top], "__version__", ""))
    sys.stdout.write(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

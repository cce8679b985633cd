"""python -m marrow [--outline] FILE"""

import sys

from marrow import outline, parse, to_html


def main(argv):
    names = [name for name in argv if not name.startswith("--")]
    if len(names) != 1 or set(argv) - set(names) - {"--outline"}:
        print(__doc__, file=sys.stderr)
        return 2
    text = sys.stdin.read() if names == ["-"] else open(names[0], encoding="utf-8").read()
    sys.stdout.write(outline(parse(text)) if "--outline" in argv else to_html(text))
    return 0


sys.exit(main(sys.argv[1:]))

import sys

from spans.cli import main

sys.exit(main())

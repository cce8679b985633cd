import sys

from drover.cli import main

sys.exit(main())

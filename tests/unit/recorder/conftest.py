"""The recorder lives under ops/, which is no installed package: make it importable from the checkout."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

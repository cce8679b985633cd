"""The page about the statistics says what the code computes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_equals_the_code() -> None:
    """Every table of soak/stats/README.md is what ops/bench/stats_page.py computes from the code and the results."""
    script = ROOT / "ops" / "bench" / "stats_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Without the extra `report` there are no pages, and soak says how to get them."""

import subprocess
import sys

import pytest

from soak.shelves import install_command

ASK = """
import sys
sys.modules[sys.argv[1]] = None  # as if it were not installed
from soak.app.reporting import page_tools
from soak.errors import UsageError
try:
    page_tools()
except UsageError as error:
    print(error.why, error.hint)
"""


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_library_is_a_usage_error_with_the_command_to_type(missing: str) -> None:
    """The error names the library and the command to install the extra; all else can be imported without it."""
    said = subprocess.run([sys.executable, "-c", ASK, missing], capture_output=True, text=True, check=True).stdout
    assert f"{missing} is not installed" in said
    assert install_command("report") in said

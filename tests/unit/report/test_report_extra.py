"""Without the extra `report` there are no pages, and soak says how to get them."""

import sys

import pytest

from soak.app.reporting import page_tools
from soak.errors import UsageError


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_library_is_a_usage_error_with_the_command_to_type(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """The error names the library and `pip install 'soak[report]'`."""
    for name in [name for name in sys.modules if name.split(".")[0] == missing or name.startswith("soak.report.")]:
        if name.split(".")[-1] in ("html", "plots", "bands") or name.split(".")[0] == missing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("soak.report.html", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError) as refused:
        page_tools()
    assert missing in refused.value.why
    assert "pip install 'soak[report]'" in refused.value.hint

"""Imports of real transcripts give the counts that are known of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from soak.importers import SourceReport, read_transcripts, write_corpus

FOLDER = Path(__file__).parents[4] / "shared" / "transcripts-real"

pytestmark = [
    pytest.mark.transcripts_real,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of real transcripts is not beside the checkout"),
]


def known(file: str) -> dict[str, Any]:
    """Return what is known of a file."""
    expected: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())[file][0]
    return expected


def compare(report: SourceReport, expected: dict[str, Any], ends: int) -> None:
    """Compare a report with what is known; `ends` messages at the end are no part of what was sent."""
    assert report.messages + ends == expected["msgs"]
    assert report.roles["assistant"] == expected["assistant"]
    assert report.roles["user"] + ends == expected["user"]
    assert report.roles["system"] == expected["system"]
    assert report.tool_calls == expected["tool_calls"]
    assert report.tool_results == expected["tool_results"]
    assert report.parallel == expected["parallel"]
    assert report.characters + report.dropped_characters == expected["chars"]
    assert report.repaired == {}


@pytest.mark.parametrize(
    "name",
    [
        "django__django-11138.traj.json",
        "scikit-learn__scikit-learn-25102.traj.json",
        "django__django-16560.traj.json",
        "github_issue.bare-list.traj.json",
    ],
)
def test_mini_swe_agent_counts(name: str) -> None:
    """Messages, roles and characters of a real run; the submitted diff at its end is dropped and counted."""
    imported = read_transcripts([FOLDER / "mini-swe-agent" / name])
    (report,) = imported.reports
    compare(report, known(f"mini-swe-agent/{name}"), ends=1)
    assert report.format == "mini-swe-agent"
    assert report.dropped == {"the message that ends the run": 1}
    assert report.turns == report.roles["assistant"]


def test_openai_chat_counts(tmp_path: Path) -> None:
    """A real list of messages with native calls; it ends on a tool result, so its last turn has no answer."""
    imported = read_transcripts([FOLDER / "openai-chat" / "openhands_fncall_messages.json"])
    (report,) = imported.reports
    compare(report, known("openai-chat/openhands_fncall_messages.json"), ends=0)
    assert (report.format, report.turns, report.unanswered) == ("openai-chat", 7, 1)
    assert write_corpus(tmp_path / "c", imported.episodes).turns == 7

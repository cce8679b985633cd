"""What `soak import` prints."""

import json
from pathlib import Path

import pytest
from rigs.transcripts import lay_out

from soak.cli.corpora import import_command
from soak.importers import load_corpus


def test_import_prints_what_was_found_kept_dropped_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Episodes, turns, calls, results, characters and every reason are on stdout; the corpus's place on stderr."""
    source = lay_out("mini_swe_agent_v2.traj.json", tmp_path)
    assert import_command([source], tmp_path / "corpus") == 0
    printed = capsys.readouterr()
    assert "1 episodes, 2 turns, 7 messages" in printed.out
    assert "found: 2 tool calls, 2 results, 133 characters (129 in the corpus)" in printed.out
    assert "dropped 1: the message that ends the run" in printed.out
    assert str(tmp_path / "corpus") in printed.err


def test_import_with_redact_counts_what_was_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The flag replaces and says how much; as JSON the same stands in the report."""
    said = [{"role": "user", "content": "ann@lamp.io in /home/ann"}, {"role": "assistant", "content": "ok"}]
    (tmp_path / "a.json").write_text(json.dumps(said))
    assert import_command([tmp_path / "a.json"], tmp_path / "one", redact=True) == 0
    printed = capsys.readouterr().out
    assert "redacted 1: e-mail address" in printed
    assert "redacted 1: user name" in printed
    assert import_command([tmp_path / "a.json"], tmp_path / "two", redact=True, as_json=True) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["redacted"] == {"e-mail address": 1, "user name": 1}
    assert load_corpus(tmp_path / "two").episodes[0].nodes[0].message.content == "user1@example.com in /home/user1"

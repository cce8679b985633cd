"""What `soak import` prints."""

import json
import os
from pathlib import Path

import pytest
from rigs.transcripts import lay_out

from soak.cli.corpora import import_command
from soak.errors import CorpusError, TranscriptError, UsageError
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


GOOD = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def chat(path: Path, *questions: str, broken: bytes = b"") -> Path:
    """Write one conversation a line, and after them what is no JSON."""
    lines = [
        {"messages": [{"role": "user", "content": one}, {"role": "assistant", "content": "a"}]} for one in questions
    ]
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + broken)
    return path


def test_broken_file_is_told_and_the_others_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a folder with one file broken at its second line the rest is imported; the exit code is 4 and says where."""
    source = tmp_path / "source"
    source.mkdir()
    chat(source / "a.jsonl", "one", "two")
    chat(source / "b.jsonl", "three", broken=b"{oops}\n" + json.dumps(GOOD).encode() + b"\n")
    chat(source / "c.jsonl", "four")
    (source / "d.jsonl").write_bytes(b"\xff\xfe{")
    assert import_command([source], tmp_path / "corpus") == 4
    printed = capsys.readouterr()
    said = [episode.nodes[0].message.content for episode in load_corpus(tmp_path / "corpus").episodes]
    assert said == ["one", "two", "three", "four"]
    assert f"NOT READ ON from {source}/b.jsonl:2: is not valid JSON" in printed.out
    assert "error: 2 of the files could not be read to their end" in printed.err
    assert f"{source}/d.jsonl: is not UTF-8" in printed.err
    assert import_command([source], tmp_path / "corpus", replace=True, as_json=True) == 4
    reports = json.loads(capsys.readouterr().out)
    assert [len(report["broken"]) for report in reports] == [0, 1, 0, 1]
    assert reports[1]["broken"][0]["place"] == f"{source}/b.jsonl:2"


def test_broken_file_of_a_group_does_not_end_the_group(tmp_path: Path) -> None:
    """Where the files of a folder are read as one, those before and after a broken one are."""
    folder = lay_out("completions", tmp_path)
    whole = sorted(folder.iterdir())
    (folder / "00-broken.json").write_bytes(b"{oops")
    assert import_command([folder], tmp_path / "corpus") == 4
    whole[0].with_name("zz-broken.json").write_bytes(whole[0].read_bytes()[:-40])
    assert import_command([folder], tmp_path / "corpus", replace=True) == 4
    with_broken = load_corpus(tmp_path / "corpus").card.digest
    for name in ("00-broken.json", "zz-broken.json"):
        (folder / name).unlink()
    assert import_command([folder], tmp_path / "corpus", replace=True) == 0
    assert load_corpus(tmp_path / "corpus").card.digest == with_broken


def test_import_of_nothing_but_broken_files_writes_nothing(tmp_path: Path) -> None:
    """Where no file can be read to its end there is no corpus, and the first of them is the error."""
    chat(tmp_path / "a.jsonl", "one", broken=b"{oops}\n{}\n")
    chat(tmp_path / "b.jsonl", broken=b"nothing")
    with pytest.raises(TranscriptError, match=r"a\.jsonl:2"):
        import_command([tmp_path], tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("name", ["pipe", "/dev/zero"])
def test_pipes_and_devices_are_refused(name: str, tmp_path: Path) -> None:
    """What is no regular file is refused at once, alone and beside files that are read."""
    source = Path(name) if name.startswith("/") else tmp_path / name
    if name == "pipe":
        os.mkfifo(source)
    with pytest.raises(TranscriptError) as caught:
        import_command([source], tmp_path / "corpus")
    assert "no file" in caught.value.why
    assert import_command([source, chat(tmp_path / "a.jsonl", "one")], tmp_path / "corpus") == 4


def test_corpus_that_is_there_is_replaced_only_with_the_flag_that_the_error_names(tmp_path: Path) -> None:
    """The error of an import into a corpus that is there names --replace, which works."""
    for question in ("one", "two"):
        chat(tmp_path / f"{question}.jsonl", question)
    assert import_command([tmp_path / "one.jsonl"], tmp_path / "corpus") == 0
    with pytest.raises(CorpusError) as caught:
        import_command([tmp_path / "two.jsonl"], tmp_path / "corpus")
    assert "--replace" in caught.value.hint
    assert import_command([tmp_path / "two.jsonl"], tmp_path / "corpus", replace=True) == 0
    assert load_corpus(tmp_path / "corpus").episodes[0].nodes[0].message.content == "two"


def test_columns_of_the_command_are_pairs(tmp_path: Path) -> None:
    """`--columns ours=theirs,…` reaches the rows; what is no pair is a usage error."""
    row = {"talk": GOOD["messages"], "uid": "u7"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "talk": [], "uid": "u8"}) + "\n")
    assert import_command([tmp_path / "a.jsonl"], tmp_path / "corpus", columns="messages=talk, id=uid") == 0
    assert load_corpus(tmp_path / "corpus").episodes[0].id == "u7"
    for wrong in ("messages", "=talk", "messages=talk,messages=uid", ""):
        with pytest.raises(UsageError):
            import_command([tmp_path / "a.jsonl"], tmp_path / "other", columns=wrong)

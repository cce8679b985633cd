"""Files that would harm whoever reads them: refused by name, with the reason, or read in bounded memory."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from rigs.transcripts import FIXTURES, lay_out, pack

from soak.app.corpora import import_into
from soak.errors import TranscriptError
from soak.importers import Import, read_transcripts
from soak.importers import reading as limits

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
HEADER = json.dumps({"version": 3, "status": "success", "eval": {"task": "t"}, "plan": {}}).encode()
SAMPLE = json.dumps({"id": 1, "epoch": 1, "messages": [USER, ANSWER], "events": []}).encode()


def refused(path: Path, **given: Any) -> TranscriptError:
    """Return the error of importing a file."""
    with pytest.raises(TranscriptError) as caught:
        read_transcripts([path], **given)
    assert caught.value.exit_code == 4
    return caught.value


def archive(path: Path, **members: bytes) -> Path:
    """Write an archive with a header, a sample and these members (`__` stands for a slash)."""
    named = {name.replace("__", "/"): data for name, data in members.items()}
    pack(path, {"header.json": HEADER, "samples/1_epoch_1.json": SAMPLE, **named})
    return path


def test_a_file_that_is_not_there_is_no_question_of_formats(tmp_path: Path) -> None:
    """The way out of a wrong path is to check the path."""
    error = refused(tmp_path / "absent.jsonl")
    assert (error.why, error.hint) == ("cannot be read: No such file or directory", "check the path")


# -- archives ----------------------------------------------------------------------------------------------------


def test_archive_of_samples_is_read(tmp_path: Path) -> None:
    """The archive the other tests spoil is fine as it is."""
    (episode,) = read_transcripts([archive(tmp_path / "a.eval")]).episodes
    assert episode.id == "a.1.1"


@pytest.mark.parametrize("name", ["../../etc/x.json", "/etc/x.json", "samples/../../x.json", "C:\\x.json", "a\\..\\b"])
def test_member_that_leads_out_of_the_archive_is_refused(name: str, tmp_path: Path) -> None:
    """A member with a path that leaves the archive refuses it by that name, and nothing is written anywhere."""
    pack(tmp_path / "a.eval", {"header.json": HEADER, name: SAMPLE})
    error = refused(tmp_path / "a.eval")
    assert "leads out of the archive" in error.why
    assert name.split("/")[-1] in error.what
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.eval"]


def test_bomb_by_ratio_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """A member that says it unpacks to more than 200 times its size is not touched."""
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", HEADER)
        file.writestr("samples/1_epoch_1.json", b" " * (100 << 20))
    error = refused(tmp_path / "a.eval")
    assert "unpacks to more than 200 times its size" in error.why
    assert "samples/1_epoch_1.json" in error.what


def test_bomb_that_lies_about_its_size_is_stopped(tmp_path: Path) -> None:
    """A member whose entry understates its size is read no further than the entry says, and refused."""
    path = archive(tmp_path / "a.eval", samples__2_epoch_1=b"")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", HEADER)
        file.writestr("samples/1_epoch_1.json", b" " * 5_000_000)
    data = bytearray(path.read_bytes())
    for size in ((5_000_000).to_bytes(4, "little"),):
        at = data.rfind(size)
        data[at : at + 4] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    error = refused(path)
    assert "samples/1_epoch_1.json" in error.what


def test_member_packed_with_zstd_is_named(tmp_path: Path) -> None:
    """A member packed in a way this Python cannot read is named with what to do, not a traceback."""
    path = archive(tmp_path / "a.eval")
    data = path.read_bytes()
    central = data.rindex(b"PK\x01\x02")
    path.write_bytes(data[: central + 10] + (93).to_bytes(2, "little") + data[central + 12 :])
    error = refused(path)
    assert "zstd" in error.why
    assert "samples/1_epoch_1.json" in error.what


def test_encrypted_repeated_and_missing_members_are_named(tmp_path: Path) -> None:
    """Encryption, a name that occurs twice, and an archive with nothing to read in it are each told apart."""
    path = archive(tmp_path / "a.eval")
    data = path.read_bytes()
    central = data.rindex(b"PK\x01\x02")
    path.write_bytes(data[: central + 8] + b"\x01\x00" + data[central + 10 :])
    assert "encrypted" in refused(path).why
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(tmp_path / "b.eval", "w") as file:
        for _ in range(2):
            file.writestr("samples/1.json", SAMPLE)
    assert "twice" in refused(tmp_path / "b.eval").why
    pack(tmp_path / "c.eval", {"readme.txt": b"hello"})
    assert "without header.json" in refused(tmp_path / "c.eval").why
    (tmp_path / "d.eval").write_bytes(archive(tmp_path / "e.eval").read_bytes()[:-40])
    assert "not a readable zip archive" in refused(tmp_path / "d.eval").why


def test_broken_sample_is_named(tmp_path: Path) -> None:
    """A member that is no JSON is named with its archive."""
    error = refused(archive(tmp_path / "a.eval", samples__2_epoch_1=b"", **{"samples__2_epoch_1.json": b'{"id": '}))
    assert "a.eval:samples/2_epoch_1.json" in error.what


def test_attachments_that_multiply_are_stopped(tmp_path: Path) -> None:
    """A long string that is named again and again does not grow beyond bounds."""
    message = {"role": "user", "content": [{"type": "text", "text": "attachment://a"}] * 4000}
    sample = {"id": 1, "messages": [message, ANSWER], "attachments": {"a": "x" * 1_000_000}}
    (tmp_path / "a.json").write_text(json.dumps({"version": 2, "eval": {}, "plan": {}, "samples": [sample]}))
    assert "grow beyond bounds" in refused(tmp_path / "a.json").why


# -- compressed files ----------------------------------------------------------------------------------------------


def test_gzip_is_read_through_and_its_bombs_stopped(tmp_path: Path) -> None:
    """A gzip file of lines is read; one that unpacks to hundreds of times its size is refused."""
    line = json.dumps({"messages": [USER, ANSWER]}).encode() + b"\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line))
    assert read_transcripts([tmp_path / "a.jsonl.gz"]).episodes[0].id == "a"
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress((line + b" " * (9 << 20) + b"\n") * 9, 9))
    assert "unpacks to more than" in refused(tmp_path / "b.jsonl.gz").why
    (tmp_path / "d.jsonl").write_bytes(line + b"\n" * 1_100_000)
    assert "blank lines" in refused(tmp_path / "d.jsonl").why
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(line * 9)[:-9])
    assert "cannot be read" in refused(tmp_path / "c.jsonl.gz").why


def test_zstd_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """A file packed with zstd is named and says how to unpack it."""
    (tmp_path / "a.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 20)
    assert "zstd -d" in refused(tmp_path / "a.jsonl.zst").why
    assert "zstd -d" in refused(tmp_path).why


# -- large, deep and many ------------------------------------------------------------------------------------------

WRITER = """
import json, sys
from pathlib import Path
path, megabytes = Path(sys.argv[1]), int(sys.argv[2])
with path.open("w") as file:
    number = 0
    while file.tell() < megabytes * 1_000_000:
        text = f"{number} " + "the lamp is lit and the horn is silent " * 600
        messages = [{"role": "user", "content": text}, {"role": "assistant", "content": text[:9000]}]
        file.write(json.dumps({"messages": messages}) + "\\n")
        number += 1
"""
READER = """
import sys
from pathlib import Path
from soak.app.corpora import import_into
report, = import_into([Path(sys.argv[1])], Path(sys.argv[2]), None)
# VmHWM and not ru_maxrss, which on Linux begins with the peak of the process that started this one
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
print(report.episodes, int(status["VmHWM"].split()[0]) // 1024)
"""


def test_large_file_is_imported_in_little_memory(tmp_path: Path) -> None:
    """A file of 200 MB of lines goes into a corpus in less than 300 MiB of memory (it takes about 60)."""
    path = tmp_path / "large.jsonl"
    subprocess.run([sys.executable, "-c", WRITER, str(path), "200"], check=True)
    command = [sys.executable, "-c", READER, str(path), str(tmp_path / "corpus")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ})
    episodes, peak_mib = map(int, done.stdout.split())
    assert episodes > 5000
    assert peak_mib < 300


@pytest.mark.parametrize(
    "opening",
    [
        '{"messages":',
        '{"steps":',
        '{"history":',
        '{"resourceSpans":',
        '{"traj":',
        '{"sessionId":"s","type":"user","x":',
    ],
)
def test_deep_nesting_is_refused_in_every_format(opening: str, tmp_path: Path) -> None:
    """A hundred thousand open brackets, and seventy that are closed again, are refused and named."""
    path = tmp_path / "a.jsonl"
    path.write_text(opening + "[" * 100_000 + "\n")
    assert "nested deeper than 64" in refused(path).why
    path.write_text(opening + "[" * 70 + "]" * 70 + "}\n")
    assert "nested deeper than 64" in refused(path).why


def test_traces_that_ask_for_endless_text_are_bounded(tmp_path: Path) -> None:
    """A small trace that asks for prompts of millions of tokens again and again does not get them."""
    requests = [{"t": i, "in": 1_900_000, "out": 1, "hash_ids": [i]} for i in range(3000)]
    trace = {"id": "w", "block_size": 1, "hash_id_scope": "local", "requests": requests}
    (tmp_path / "w.json").write_text(json.dumps(trace))
    assert "more than 4000000 blocks" in refused(tmp_path / "w.json").why
    trace["block_size"], trace["requests"] = 65_536, requests[:40]
    (tmp_path / "w.json").write_text(json.dumps(trace))
    assert "Mi characters" in refused(tmp_path / "w.json").why


def test_conversation_beyond_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One conversation of many lines is held only so far; beyond that its place is named."""
    line = {"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "x" * 1_000_000}}
    (tmp_path / "s.jsonl").write_text((json.dumps(line) + "\n") * 70)
    error = refused(tmp_path / "s.jsonl")
    assert "one conversation of more than 64 MiB" in error.why
    assert "s.jsonl:68" in error.what


def test_long_chains_of_lines_take_no_long_time(tmp_path: Path) -> None:
    """A session of which each reply has thousands of ancestors is followed only so far, and read."""
    rows = []
    for i in range(6000):
        message = {"id": f"m{i}", "role": "assistant", "content": [{"type": "text", "text": "a"}]}
        rows.append({"type": "progress", "sessionId": "s", "uuid": f"p{i}", "parentUuid": f"p{i - 1}" if i else "x"})
        rows.append({"type": "assistant", "sessionId": "s", "uuid": f"u{i}", "parentUuid": f"p{i}", "message": message})
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_transcripts([tmp_path / "s.jsonl"]).reports[0].turns == 5999


def test_file_larger_than_allowed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit of a file the import ends with its name."""
    monkeypatch.setattr(limits, "FILE_BYTES_MAX", 1000)
    (tmp_path / "a.jsonl").write_text((json.dumps({"messages": [USER, ANSWER]}) + "\n") * 40)
    assert "the file is larger" in refused(tmp_path / "a.jsonl").why


def test_broken_import_leaves_no_corpus(tmp_path: Path) -> None:
    """An import that fails half-way leaves no folder behind, not even a part of one."""
    good = json.dumps({"messages": [USER, ANSWER]})
    (tmp_path / "a.jsonl").write_text(f"{good}\n{{oops}}\n{good}\n")
    with pytest.raises(TranscriptError, match=r"a\.jsonl:2"):
        import_into([tmp_path / "a.jsonl"], tmp_path / "corpus", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


# -- sources that are several files --------------------------------------------------------------------------------


def test_folder_of_requests_is_one_source_beside_others(tmp_path: Path) -> None:
    """In a folder of everything, request logs of one folder are merged and other files stay for themselves."""
    for name in ("completions", "openai_fine_tuning.jsonl", "tau2_folder", "inspect_v3.eval"):
        lay_out(name, tmp_path)
    run = Import([tmp_path])
    list(run.episodes())
    formats = [(Path(report.source).name, report.format) for report in run.reports]
    assert formats == [
        ("inspect_v3.eval", "inspect"),
        ("openai_fine_tuning.jsonl", "openai-chat"),
        ("completions", "openhands-completions"),
        ("tau2_folder", "tau2-bench"),
    ]


def test_conversations_that_are_closed_early_are_not_merged_again(tmp_path: Path) -> None:
    """Only so many conversations are open at once; one that comes back after that begins anew and none is lost."""
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "task 0"}]
    lines = [{"messages": first}]
    lines += [{"messages": [first[0], {"role": "user", "content": f"task {i}"}]} for i in range(1, 40)]
    lines += [{"messages": [*first, ANSWER, USER]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    imported = read_transcripts([tmp_path / "a.jsonl"])
    assert len(imported.episodes) == 41
    (tmp_path / "b.jsonl").write_text(json.dumps(lines[0]) + "\n" + json.dumps(lines[-1]) + "\n")
    assert len(read_transcripts([tmp_path / "b.jsonl"]).episodes) == 1


# -- the package of recorded tasks ---------------------------------------------------------------------------------


def test_package_that_is_not_installed_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the package, where it is neither a file nor installed, ends with the command that installs it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "site-packages" not in entry])
    error = refused(Path("agentperf-local"))
    assert "pip install" in error.hint
    assert "agentperf-local" in error.hint


def test_package_that_is_installed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces of an installed package are imported by its name, with its licence."""
    site = tmp_path / "lib" / "site-packages"
    traces = site / "agentperf_local" / "data" / "replays" / "set" / "traces"
    traces.mkdir(parents=True)
    (traces / "log.jsonl").write_bytes((FIXTURES / "agentperf_local.jsonl").read_bytes())
    info = site / "agentperf_local-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentperf-local\nVersion: 9.9\n")
    record = "agentperf_local/data/replays/set/traces/log.jsonl,,\nagentperf_local/data/x.json,,\n"
    (info / "RECORD").write_text(record)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(site))
    (episode,) = read_transcripts([Path("agentperf-local")]).episodes
    assert (len(episode.turns), episode.meta["licence"]) == (3, "Apache-2.0")
    (info / "RECORD").write_text(record + "agentperf_local/data/replays/agentperf-default-v1/traces/none.jsonl,,\n")
    assert "none.jsonl" in refused(Path("agentperf-local")).what

"""Parquet and arrow files: rows of a table are read as the JSON rows they would be."""

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import soak
from soak.errors import TranscriptError
from soak.importers import read_transcripts
from soak.shelves import install_command

pa = pytest.importorskip("pyarrow", reason="the extra hub is not installed")
pq = pytest.importorskip("pyarrow.parquet")

CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
SAID: list[dict[str, Any]] = [
    {"role": "system", "content": "You work."},
    {"role": "user", "content": "List."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
    {"role": "assistant", "content": "One file."},
]


def row(name: str, **more: Any) -> dict[str, Any]:
    """Return a row as SWE-smith's trajectories have them."""
    said = [*SAID[:1], {"role": "user", "content": f"List {name}."}, *SAID[2:]]
    return {"messages": said, "instance_id": name, "resolved": True, "patch": None, **more}


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a parquet file; its nested columns are structs, in which absent fields become null."""
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    return path


def as_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the same rows as JSON Lines."""
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def content(path: Path) -> list[tuple[Any, ...]]:
    """Return what the episodes of a file hold."""
    read = read_transcripts([path]).episodes
    return [(one.id, [node.digest for node in one.nodes], one.turns, one.tools) for one in read]


def refusal(path: Path, **given: Any) -> tuple[str, str, str]:
    """Return the three lines of the error of an import."""
    with pytest.raises(TranscriptError) as caught:
        read_transcripts([path], **given)
    return caught.value.lines()


def test_parquet_with_nested_columns_reads_as_the_same_rows_in_json(tmp_path: Path) -> None:
    """Episodes, turns and tools are those of the JSON Lines; nulls that only Arrow put there are not seen."""
    rows = [row("a"), row("b"), row("c")]
    found = content(parquet(tmp_path / "t.parquet", rows))
    assert found == content(as_jsonl(tmp_path / "t.jsonl", rows))
    assert [name for name, *_ in found] == ["a", "b", "c"]


def test_parquet_with_json_text_columns_reads_as_the_same_rows(tmp_path: Path) -> None:
    """Messages and tools stored as JSON text are taken out of it; a row whose text is broken is counted."""
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    rows = [row("a", tools=tools), row("b", tools=tools)]
    packed = [{**one, "messages": json.dumps(one["messages"]), "tools": json.dumps(one["tools"])} for one in rows]
    path = parquet(tmp_path / "t.parquet", [*packed, {**packed[0], "messages": "[{broken"}])
    assert content(path) == content(as_jsonl(tmp_path / "t.jsonl", rows))
    (report,) = read_transcripts([path]).reports
    assert report.dropped == {"an entry that is no row": 1}


@pytest.mark.parametrize("form", ["file", "stream"])
def test_arrow_file_is_recognised_by_content(form: str, tmp_path: Path) -> None:
    """Arrow's file and stream forms are read, whatever the file is called."""
    path = tmp_path / "rows.bin"
    table = pa.Table.from_pylist([row("a"), row("b")])
    opened = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with opened(path, table.schema) as writer:
        writer.write_table(table)
    assert content(path) == content(as_jsonl(tmp_path / "t.jsonl", [row("a"), row("b")]))


def test_messages_stored_column_by_column_become_a_list(tmp_path: Path) -> None:
    """A struct of lists, as older data sets have, is the list of structs it stands for."""
    plain = [one for one in SAID if one["role"] in ("system", "user") or one["content"] == "One file."]
    columns = {key: [one[key] for one in plain] for key in ("role", "content")}
    rows = [{"messages": columns, "instance_id": "a", "resolved": False}]
    (episode,) = read_transcripts([parquet(tmp_path / "t.parquet", rows)]).episodes
    assert [node.message.role for node in episode.nodes] == ["system", "user", "assistant"]


def test_values_that_json_has_not_are_written_as_text(tmp_path: Path) -> None:
    """Dates, bytes and numbers that are not finite do not stop a row."""
    odd = {"at": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"\xff\x00", "score": float("nan")}
    (episode,) = read_transcripts([parquet(tmp_path / "t.parquet", [row("a", **odd)])]).episodes
    assert episode.id == "a"
    assert episode.meta["line"] == 1


def test_columns_are_named_by_the_user(tmp_path: Path) -> None:
    """With a mapping, rows with names of their own are read, as a table and as JSON Lines; a missing name is told."""
    strange = [{"chat": SAID, "uid": "x1"}, {"chat": SAID[:3], "uid": "x2"}]
    names = {"messages": "chat", "id": "uid"}
    for path in (parquet(tmp_path / "t.parquet", strange), as_jsonl(tmp_path / "t.jsonl", strange)):
        assert "not recognised" in refusal(path)[1]
        read = read_transcripts([path], columns=names)
        assert [one.id for one in read.episodes] == ["x1", "x2"]
        what, why, do = refusal(path, columns={"messages": "talk"})
        assert what.endswith(f"{path}:1")
        assert "no column 'talk'; it has chat, uid" in why
        assert "--columns" in do


def test_tasks_of_swe_bench_are_told_apart(tmp_path: Path) -> None:
    """Rows that are tasks are recognised, counted, and sent to agent replay; runs beside them are read."""
    task = {"instance_id": "a__b-1", "repo": "a/b", "base_commit": "0", "problem_statement": "Fix it.", "patch": "d"}
    what, why, do = refusal(parquet(tmp_path / "tasks.parquet", [task, task]))
    assert "tasks.parquet" in what
    assert "SWE-bench task" in why
    assert "replay: agent" in do
    parquet(tmp_path / "runs.parquet", [row("a")])
    read = read_transcripts([tmp_path])
    assert [one.id for one in read.episodes] == ["a"]
    assert sum(sum(report.dropped.values()) for report in read.reports) == 2


@pytest.mark.parametrize(
    "data", [b"PAR1", b"PAR1" + b"\x00" * 400 + b"PAR1", b"ARROW1\x00\x00" + b"\x07" * 99, b"\xff\xff\xff\xff\x10\x00"]
)
def test_broken_table_is_named(data: bytes, tmp_path: Path) -> None:
    """A file that begins as a table and is none is refused by name, without a traceback."""
    (tmp_path / "t.parquet").write_bytes(data)
    what, why, _ = refusal(tmp_path / "t.parquet")
    assert "t.parquet" in what
    assert "cannot be read as a table" in why


def test_parquet_cut_in_the_middle_is_named(tmp_path: Path) -> None:
    """A damaged page is an error with its place, or the rows are those that were written."""
    path = parquet(tmp_path / "t.parquet", [row("a"), row("b"), row("c")])
    data = bytearray(path.read_bytes())
    whole = content(path)
    for at in range(4, len(data), len(data) // 12):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        try:
            found = content(path)
        except TranscriptError as error:
            assert "t.parquet" in error.what
        else:
            assert len(found) <= len(whole)


def test_table_without_rows_is_told(tmp_path: Path) -> None:
    """A table with columns and no rows is no success."""
    pq.write_table(pa.table({"messages": pa.array([], pa.string())}), tmp_path / "t.parquet")
    assert "no rows" in refusal(tmp_path / "t.parquet")[1]


def test_row_of_great_length_is_refused(tmp_path: Path) -> None:
    """A row longer than a line may be is refused with its number."""
    long = row("b", notes="x" * (33 << 20))
    what, why, _ = refusal(parquet(tmp_path / "t.parquet", [row("a", notes=""), long]))
    assert what.endswith("t.parquet:2")
    assert "longer than 32 MiB" in why


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where datasets is not installed, a table and a Hub name say so, and JSON is read as ever."""
    path = parquet(tmp_path / "t.parquet", [row("a")])
    for module in ("datasets", "huggingface_hub", "huggingface_hub.constants"):
        monkeypatch.setitem(sys.modules, module, None)
    for source in (path, Path("hf://org/name")):
        assert refusal(source)[2] == f"   do: {install_command('hub')}"
    assert len(content(as_jsonl(tmp_path / "t.jsonl", [row("a")]))) == 1


def test_one_module_only_knows_the_library() -> None:
    """No module but `tables` names datasets, pyarrow or huggingface_hub in an import."""
    named = re.compile(
        r'(?m)^\s*(?:import|from) (?:datasets|pyarrow|huggingface_hub)\b|"(?:datasets|huggingface_hub)[".]'
    )
    modules = Path(soak.__file__).parent.rglob("*.py")
    assert {path.name for path in modules if named.search(path.read_text())} == {"tables.py"}

"""Data sets on the Hub, in processes of their own against a Hub on loopback: its address is read once a process."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rigs.cli import environment, free_port
from rigs.hub import PracticeHub

from soak.importers import tables
from soak.importers.reading import UnreadableError

pa = pytest.importorskip("pyarrow", reason="the extra hub is not installed")
pq = pytest.importorskip("pyarrow.parquet")

CARD = b"---\nlicense: cc-by-4.0\n---\n# Runs\n"
TRAIN = "data/train-00000-of-00001.parquet"
_LISTED = "".join(f"- config_name: {name}\n  data_files: {name}.jsonl\n" for name in ("easy", "hard"))
CONFIGS = f"---\nconfigs:\n{_LISTED}---\n".encode()
_SCRIPT = """
import json, sys
from pathlib import Path
from soak.errors import SoakError
from soak.importers import read_transcripts
for source in json.loads(sys.argv[1]):
    if source == "KEEP":
        import datasets
        datasets.load_dataset("org/runs")
        continue
    try:
        read = read_transcripts([Path(source)])
        told = [[one.id, one.meta] for one in read.episodes], [one.source for one in read.reports]
    except SoakError as error:
        told = [error.exit_code, *error.lines()], None
    print(json.dumps([source, *told]))
"""


def rows(count: int, *, of: str = "run") -> list[dict[str, Any]]:
    """Return rows of a trajectory data set."""
    return [
        {
            "messages": [{"role": "user", "content": f"{of} {i}?"}, {"role": "assistant", "content": "Yes."}],
            "instance_id": f"{of}-{i}",
            "resolved": True,
        }
        for i in range(count)
    ]


def parquet(count: int, *, of: str = "run") -> bytes:
    """Return a parquet file of rows."""
    held = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows(count, of=of)), held)
    return held.getvalue()


def jsonl(count: int, *, of: str) -> bytes:
    """Return JSON Lines of rows."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows(count, of=of))


def ask(sources: list[str], home: Path, **variables: str) -> dict[str, tuple[Any, Any]]:
    """Import each source in one process; return its episodes and sources, or its error."""
    settings = environment(HF_HOME=str(home), **variables)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, json.dumps(sources)], capture_output=True, text=True, env=settings, timeout=110
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return {source: (told, more) for source, told, more in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the libraries' own."""
    return tmp_path_factory.mktemp("hf")


@pytest.fixture(scope="module")
def answers(home: Path) -> Iterator[dict[str, tuple[Any, Any]]]:
    """What came of importing from a Hub with a few data sets; one of them is then kept in the cache."""
    hub = {
        "org/runs": {"README.md": CARD, TRAIN: parquet(5)},
        "org/split": {"README.md": CARD, TRAIN: parquet(3), TRAIN.replace("train", "tool"): parquet(2, of="tool")},
        "org/lines": {"README.md": CONFIGS, "easy.jsonl": jsonl(2, of="e"), "hard.jsonl": jsonl(3, of="h")},
        "org/code": {"README.md": CARD, "code.py": b"import os\nos._exit(66)\n"},
    }
    with PracticeHub(hub, gated=("org/gated",)) as served:
        sources = ["hf://org/runs", "hf://datasets/org/runs@main:train[:2]", "hf://org/split", "hf://org/split:tool"]
        sources += ["hf://org/split:nope", "hf://org/lines", "hf://org/lines/hard", "hf://org/gated", "hf://org/none"]
        sources += ["hf://org/runs@v9", "hf://org/code", "KEEP"]
        yield ask(sources, home, HF_ENDPOINT=served.url)


def test_split_of_a_data_set_is_streamed_with_its_licence(answers: dict[str, tuple[Any, Any]]) -> None:
    """Episodes carry the data set's name and the licence on its card; ids are the rows' own."""
    episodes, sources = answers["hf://org/runs"]
    assert [name for name, _ in episodes] == [f"run-{i}" for i in range(5)]
    assert sources == ["hf://org/runs"]
    assert episodes[0][1]["licence"] == "cc-by-4.0"
    assert episodes[0][1]["source"] == "hf://org/runs"
    assert episodes[0][1]["format"] == "dataset-rows"


def test_split_revision_and_number_of_rows_can_be_named(answers: dict[str, tuple[Any, Any]]) -> None:
    """`@REVISION`, `:SPLIT` and `[:N]` are taken; JSON Lines on the Hub are read by configuration."""
    assert [name for name, _ in answers["hf://datasets/org/runs@main:train[:2]"][0]] == ["run-0", "run-1"]
    assert [name for name, _ in answers["hf://org/split:tool"][0]] == ["tool-0", "tool-1"]
    assert [name for name, _ in answers["hf://org/lines/hard"][0]] == ["h-0", "h-1", "h-2"]


@pytest.mark.parametrize(
    ("source", "why", "do"),
    [
        ("hf://org/split", "several splits: train, tool", "name one: hf://org/split:train"),
        ("hf://org/split:nope", "no split 'nope'; it has train, tool", ":SPLIT"),
        ("hf://org/lines", "easy", "/CONFIG"),
        ("hf://org/gated", "gated", "HF_TOKEN"),
        ("hf://org/none", "no such data set", "check the name"),
        ("hf://org/runs@v9", "no revision v9", "@REVISION"),
        ("hf://org/code", "cannot be read as a table", "hf://ORG/NAME"),
    ],
)
def test_what_cannot_be_had_is_told_in_three_lines(
    source: str, why: str, do: str, answers: dict[str, tuple[Any, Any]]
) -> None:
    """Each refusal names the data set, the reason and a way out, with exit code 4; code in a data set never runs."""
    code, *lines = answers[source][0]
    assert code == 4
    assert lines[0].startswith(f"error: cannot import {source}")
    assert why in lines[1]
    assert do in lines[2]


def test_offline_a_data_set_comes_from_the_cache_or_is_refused_at_once(
    answers: dict[str, tuple[Any, Any]], home: Path
) -> None:
    """With HF_HUB_OFFLINE nothing is asked of a network: what is in the cache is read, the rest is told."""
    assert answers
    address = f"http://127.0.0.1:{free_port()}"
    told = ask(["hf://org/runs:train[:3]", "hf://org/other"], home, HF_HUB_OFFLINE="1", HF_ENDPOINT=address)
    assert [name for name, _ in told["hf://org/runs:train[:3]"][0]] == ["run-0", "run-1", "run-2"]
    code, _, why, do = told["hf://org/other"][0]
    assert code == 4
    assert "HF_HUB_OFFLINE is set" in why
    assert "unset HF_HUB_OFFLINE" in do


def test_hub_that_cannot_be_reached_is_told_after_one_try(tmp_path: Path) -> None:
    """A Hub that refuses connections is one error that names its address, not minutes of attempts."""
    address = f"http://127.0.0.1:{free_port()}"
    code, what, why, do = ask(["hf://org/runs"], tmp_path, HF_ENDPOINT=address)["hf://org/runs"][0]
    assert code == 4
    assert what == "error: cannot import hf://org/runs"
    assert f"the Hub at {address} cannot be reached" in why
    assert "soak import FILE.parquet" in do


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hf://a/b", {"repository": "a/b"}),
        ("hf://datasets/a/b-c.d", {"repository": "a/b-c.d"}),
        ("hf://a/b@refs/convert/parquet/conf:train", {"revision": "refs/convert/parquet", "config": "conf"}),
        ("hf://a/b/conf:test[:7]", {"config": "conf", "split": "test", "first": 7}),
    ],
)
def test_names_are_read_in_full(text: str, name: dict[str, Any]) -> None:
    """Repository, revision, configuration, split and number of rows, also where a path has lost a slash."""
    for spelled in (Path(text), text):
        found = tables.hub_name(Path(spelled))
        assert found is not None
        assert {key: getattr(found, key) for key in name} == name
        assert str(found) == text.replace("datasets/", "")


@pytest.mark.parametrize(
    "text", ["hf://a", "hf://a/b/c/d", "hf://a/b:", "hf://a/../b", "hf://a/b:train[5:9]", "hf://a/b@"]
)
def test_malformed_names_are_refused(text: str) -> None:
    """What is no name of a data set is told with the form of one."""
    with pytest.raises(UnreadableError) as caught:
        tables.hub_name(Path(text))
    assert "hf://ORG/NAME" in str(caught.value.hint)
    assert tables.hub_name(Path("runs/hf.jsonl")) is None

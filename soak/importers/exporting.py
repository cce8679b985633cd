"""
Conversations → the files of other tools, so that a case can be handed to them.

- `openai`: JSON Lines, one body of POST /v1/chat/completions a line, turn by turn.
- `aiperf`: a folder with a JSON Lines file for each conversation, a body a line; AIPerf's `raw_payload` sends them as
  they are (docs.nvidia.com/aiperf, "Raw Payload Replay").
- `vllm`: a JSON list of `{"id", "messages"}` for vLLM's benchmarks/multi_turn. It wants user and assistant by turns,
  beginning with the user and ending with an answer, and no fields but `role` and `content`, which is text.

The bodies and the plain text come from whoever composes requests; here they get their form. A file appears whole or not
at all.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, get_args

import msgspec

from soak.errors import CorpusError, UsageError
from soak.facts import Episode, encode
from soak.importers.corpus import exchange
from soak.importers.requests import PARAMETERS
from soak.importers.values import mapping

ExportFormat = Literal["openai", "aiperf", "vllm"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
BYTES_MAX = 8 << 30


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """
    One conversation as other tools take it.

    `bodies` are the requests of its turns, in order; `said` is the whole of it as plain text messages of `role` and
    `content`, in which neighbours differ in role.
    """

    id: str
    bodies: Iterable[dict[str, Any]]
    said: Sequence[dict[str, Any]] = ()


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written: conversations, and requests or answers to be asked for; `lost` counts by reason."""

    path: str
    format: ExportFormat
    conversations: int
    requests: int
    lost: dict[str, int] = {}


def export(path: Path, composed: Iterable[Composed], format_: ExportFormat, *, replace: bool = False) -> Exported:
    """
    Write conversations for another tool and return what was written and what the form cannot carry.

    `path` is a file, for `aiperf` a folder. Raises `UsageError` if something is there already and `replace` is not set,
    or is no earlier export; `CorpusError` if nothing can be exported or it cannot be written.
    """
    _check_free(path, format_, replace)
    part = path.parent / f".{path.name}.{os.getpid()}.part"
    lost: Counter[str] = Counter()
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        conversations, requests = _WRITERS[format_](part, composed, lost)
        if not requests:
            raise _wrong(path, f"there is nothing to export ({'; '.join(lost) or 'no turn'})")
        if part.is_dir():
            exchange(part, path)
        else:
            part.replace(path)
    except OSError as error:
        raise _wrong(path, f"it cannot be written: {error.strerror or error}") from error
    finally:
        _remove(part)
    return Exported(path=str(path), format=format_, conversations=conversations, requests=requests, lost=dict(lost))


def recorded_parameters(episode: Episode) -> dict[str, Any]:
    """Return the model, sampling and limits that a transcript told of its requests, named as in OpenAI's API."""
    told = mapping(episode.meta.get("request"))
    return {name: told[name] for name in PARAMETERS if told.get(name) is not None}


def _openai(part: Path, composed: Iterable[Composed], _lost: Counter[str]) -> tuple[int, int]:
    with _Output(part) as file:
        numbers = [file.lines(one.bodies) for one in composed]
    return sum(number > 0 for number in numbers), sum(numbers)


def _aiperf(part: Path, composed: Iterable[Composed], _lost: Counter[str]) -> tuple[int, int]:
    part.mkdir()
    numbers = []
    for one in composed:
        with _Output(part / f"{one.id}.jsonl") as file:
            numbers.append(file.lines(one.bodies))
    return sum(number > 0 for number in numbers), sum(numbers)


def _vllm(part: Path, composed: Iterable[Composed], lost: Counter[str]) -> tuple[int, int]:
    conversations = requests = 0
    with _Output(part) as file:
        file.write(b"[")
        for one in composed:
            messages = by_turns(one.said, lost)
            if not messages:
                continue
            file.write((b",\n" if conversations else b"\n") + encode({"id": one.id, "messages": messages}))
            conversations += 1
            requests += len(messages) // 2
        file.write(b"\n]\n")
    return conversations, requests


_WRITERS: dict[ExportFormat, Callable[[Path, Iterable[Composed], Counter[str]], tuple[int, int]]] = {
    "openai": _openai,
    "aiperf": _aiperf,
    "vllm": _vllm,
}


def by_turns(said: Sequence[dict[str, Any]], lost: Counter[str]) -> list[dict[str, Any]]:
    """Return messages as vLLM's benchmark wants them: user, answer, user, answer; counts what has no place there."""
    messages = [{"role": one["role"], "content": one["content"]} for one in said]
    if len(messages) > 1 and messages[0]["role"] == "system" and messages[1]["role"] == "user":
        lost["system texts put before the first user message"] += 1
        messages[:2] = [{"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}]
    elif messages and messages[0]["role"] == "system":
        lost["system texts made the first user message"] += 1
        messages[0] = {"role": "user", "content": messages[0]["content"]}
    if messages and messages[0]["role"] == "assistant":
        lost["answers that no message precedes"] += 1
        del messages[0]
    if messages and messages[-1]["role"] == "user":
        lost["last messages without a recorded answer"] += 1
        del messages[-1]
    return messages


class _Output:
    """A file in the making, of bounded size, that is on the disk when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self._file: IO[bytes]

    def __enter__(self) -> "_Output":
        self._file = self._path.open("wb")
        return self

    def __exit__(self, *error: object) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def write(self, data: bytes) -> None:
        """Add bytes; raises `CorpusError` where they become too many."""
        self._written += len(data)
        if self._written > BYTES_MAX:
            raise _wrong(self._path, f"it would be larger than {BYTES_MAX >> 30} GiB: each request holds all before it")
        self._file.write(data)

    def lines(self, values: Iterable[dict[str, Any]]) -> int:
        """Add values, one a line; return how many."""
        number = 0
        for value in values:
            self.write(encode(value) + b"\n")
            number += 1
        return number


def _check_free(path: Path, format_: ExportFormat, replace: bool) -> None:
    """Raise `UsageError` unless there is nothing at `path`, or what an export of this format leaves and may replace."""
    if not path.exists() and not path.is_symlink():
        return
    if not replace:
        raise UsageError(
            f"{path} is there already", why="an export overwrites nothing", hint="name another -o, or add --replace"
        )
    ours = _is_export_folder(path) if format_ == "aiperf" else path.is_file()
    if not ours:
        what = "a folder of .jsonl files" if format_ == "aiperf" else "a file"
        raise UsageError(f"{path} is not replaced", why=f"it is not {what}", hint="name another -o")


def _is_export_folder(path: Path) -> bool:
    return path.is_dir() and all(file.suffix == ".jsonl" and file.is_file() for file in path.iterdir())


def _remove(part: Path) -> None:
    files: Iterator[Path] = part.iterdir() if part.is_dir() else iter(())
    for file in files:
        file.unlink(missing_ok=True)
    if part.is_dir():
        part.rmdir()
    else:
        part.unlink(missing_ok=True)


def _wrong(path: Path, why: str) -> CorpusError:
    return CorpusError(f"cannot export to {path}", why=why, hint="look at the corpus with: soak corpus show")

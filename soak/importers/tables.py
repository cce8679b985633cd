"""
Parquet and Arrow files, and data sets on the Hugging Face Hub → rows as JSON, through `datasets` (extra `hub`).

The only module that imports `datasets`, and only when such a source is read. Rows are streamed: nothing is downloaded
whole, and what is held is one row group of a parquet file, one record batch of an Arrow file: as their writers made
them. A row is given as the JSON line it would be, so that the formats read it like any other. Arrow has no absent
field, only null ones: those inside a struct are left out. A list of structs that was stored as a struct of lists is
turned back.

    hf://ORG/NAME[@REVISION][/CONFIG][:SPLIT]        a split may be cut: :train[:50] is its first 50 rows

Where HF_HUB_OFFLINE is set, a data set comes from the cache of `datasets`, or not at all. Code in a data set is never
run (`datasets` 4 and later has no way to). Tokens are those of `huggingface_hub`, and go nowhere from here.
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from soak.importers.reading import LINE_BYTES_MAX, UnreadableError
from soak.shelves import install_command

BATCH_ROWS = 32
ANSWER_S = 10.0
_MAGICS = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}
_SPEAKERS = ("role", "from")
_NAME = re.compile(
    r"hf:/+(?:datasets/)?(?P<repository>\w[\w.-]*/\w[\w.-]*)"
    r"(?:@(?P<revision>refs/(?:convert|pr)/\w+|[\w.-]+))?(?:/(?P<config>[\w.=+-]+))?"
    r"(?::(?P<split>[\w.]+)(?:\[:(?P<first>\d{1,9})\])?)?\Z",
    re.ASCII,
)
_FORM = "write hf://ORG/NAME, with @REVISION, /CONFIG and :SPLIT after it where needed"
_ELSEWHERE = "or get its files where there is a network, and import them: soak import FILE.parquet"


class HubName(msgspec.Struct, frozen=True, kw_only=True):
    """A data set on the Hub, as named by the user; `first` is how many rows of the split are wanted."""

    repository: str
    revision: str | None = None
    config: str | None = None
    split: str | None = None
    first: int | None = None

    def __str__(self) -> str:
        marks = (("@", self.revision), ("/", self.config), (":", self.split))
        cut = "" if self.first is None else f"[:{self.first}]"
        return f"hf://{self.repository}" + "".join(mark + text for mark, text in marks if text) + cut


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, each a JSON object as bytes, and the licence that the data set's card states."""

    rows: Iterator[bytes]
    licence: str | None = None


def hub_name(path: Path) -> HubName | None:
    """Return the data set that `path` names, None where it is a path; raises `UnreadableError` at a malformed name."""
    text = str(path)
    if not text.startswith("hf:/"):
        return None
    found = _NAME.match(text)
    if found is None:
        raise UnreadableError(text, "it does not name a data set on the Hub", hint=_FORM)
    first = found["first"]
    return HubName(
        repository=found["repository"],
        revision=found["revision"],
        config=found["config"],
        split=found["split"],
        first=None if first is None else int(first),
    )


def table_kind(path: Path) -> str | None:
    """Return "parquet" or "arrow" for a file that begins as one, else None."""
    try:
        with path.open("rb") as file:
            return _MAGICS.get(file.read(4))
    except OSError:
        return None


def table_in(path: Path, kind: str) -> Table:
    """Return the rows of a parquet or arrow file; they raise `UnreadableError` where it cannot be read."""
    return Table(rows=_rows(str(path), _of_file(path, kind), "see that the file is whole, or get it again"))


def table_on_hub(name: HubName) -> Table:
    """
    Return the rows of a split of a data set on the Hub, or of the copy in the cache where HF_HUB_OFFLINE is set.

    Raises `UnreadableError` where the Hub does not answer within seconds, has no such data set, or does not let us in;
    and where it has several configurations or splits and none is named.
    """
    offline = _installed("huggingface_hub.constants", str(name)).HF_HUB_OFFLINE
    licence = None if offline else _licence(name)  # before the large library is loaded: most errors come from here
    rows = _rows(str(name), _of_hub(name, _cached if offline else _streamed), _FORM)
    return Table(rows=rows, licence=licence)


def _installed(module: str, place: str) -> Any:
    """Return a module of the extra; raises `UnreadableError` where it is not installed."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when it is imported
    try:
        return import_module(module)
    except ImportError as error:
        raise UnreadableError(
            place,
            f"parquet, arrow and the Hub are read through a library that is not installed ({error})",
            hint=install_command("hub"),
        ) from error


def _library(place: str) -> Any:
    """Return `datasets`, quiet and without its long waits; raises `UnreadableError` where it is not installed."""
    datasets = _installed("datasets", place)
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    for name in ("STREAMING_READ_MAX_RETRIES", "STREAMING_OPEN_MAX_RETRIES"):
        setattr(datasets.config, name, 3)
    for name in ("STREAMING_READ_RETRY_INTERVAL", "STREAMING_OPEN_RETRY_INTERVAL"):
        setattr(datasets.config, name, 1)
    return datasets


def _of_file(path: Path, kind: str) -> Iterator[Any]:
    library = _library(str(path))
    with tempfile.TemporaryDirectory() as cache:  # it is asked for and not used: rows are streamed
        builder = library.load_dataset_builder(kind, data_files={"rows": [str(path)]}, cache_dir=cache)
    yield from _undecoded(_in_small_batches(builder).as_streaming_dataset(split="rows"))


def _of_hub(name: HubName, open_splits: Callable[[Any, HubName], Any]) -> Iterator[Any]:
    """Yield the rows of the split that is asked for, as many as are asked for."""
    rows = _undecoded(_chosen(open_splits(_library(str(name)), name), name))
    for number, row in enumerate(rows):
        if name.first is not None and number >= name.first:
            return
        yield row


def _streamed(library: Any, name: HubName) -> Any:
    builder = library.load_dataset_builder(name.repository, name.config, revision=name.revision)
    return _in_small_batches(builder).as_streaming_dataset()


def _cached(library: Any, name: HubName) -> Any:
    try:
        return library.load_dataset(name.repository, name.config, revision=name.revision)
    except OSError as error:
        raise UnreadableError(
            str(name),
            "HF_HUB_OFFLINE is set, and the data set is not in the cache of `datasets`",
            hint=f"unset HF_HUB_OFFLINE, {_ELSEWHERE}",
        ) from error


def _in_small_batches(builder: Any) -> Any:
    """Return a builder that hands over few rows at a time, where it can be told to; else all of a row group at once."""
    if hasattr(builder.config, "batch_size"):
        builder.config.batch_size = BATCH_ROWS
    return builder


def _undecoded(rows: Any) -> Iterable[Any]:
    """Return rows in which images and sound stay as they are stored: nothing here looks at them."""
    return rows.decode(False) if hasattr(rows, "decode") else rows  # type: ignore[no-any-return]


def _chosen(splits: Any, name: HubName) -> Any:
    """Return the split that is asked for, or the only one."""
    if name.split in splits:
        return splits[name.split]
    told = ", ".join(map(str, splits))[:300]
    if name.split is not None:
        raise UnreadableError(str(name), f"it has no split {name.split!r}; it has {told}", hint=_FORM)
    if len(splits) != 1:
        hint = f"name one: {msgspec.structs.replace(name, split=str(next(iter(splits))))}"
        raise UnreadableError(str(name), f"it has several splits: {told}", hint=hint)
    return next(iter(splits.values()))


def _licence(name: HubName) -> str | None:
    """Ask the Hub, once and with a short patience, whether the data set is there; return the licence on its card."""
    hub, errors = (_installed(module, str(name)) for module in ("huggingface_hub", "huggingface_hub.errors"))

    def refused(why: str, hint: str) -> UnreadableError:
        return UnreadableError(str(name), why, hint=hint)

    try:
        info = hub.HfApi().dataset_info(name.repository, revision=name.revision, timeout=ANSWER_S)
    except errors.GatedRepoError as error:
        hint = "ask for access on its page, then set HF_TOKEN or run: hf auth login"
        raise refused("the Hub does not let us in: the data set is gated", hint) from error
    except errors.RevisionNotFoundError as error:
        raise refused(f"it has no revision {name.revision}", _FORM) from error
    except errors.RepositoryNotFoundError as error:
        hint = "check the name; for a private one set HF_TOKEN or run: hf auth login"
        raise refused("the Hub has no such data set, or does not show it to us", hint) from error
    except Exception as error:  # of the HTTP library, which is none of ours and has changed before
        where = _installed("huggingface_hub.constants", str(name)).ENDPOINT
        why = f"the Hub at {where} cannot be reached: {_told(error)}"
        raise refused(why, f"check the network, proxies and HF_ENDPOINT, {_ELSEWHERE}") from error
    card = getattr(info, "card_data", None)
    licence = card.get("license") if card is not None else None
    return licence if isinstance(licence, str) else None


def _rows(place: str, rows: Iterator[Any], hint: str) -> Iterator[bytes]:
    """Yield rows as JSON; whatever the library raises becomes an `UnreadableError`."""
    number = 0
    try:
        for row in rows:
            number += 1
            data = msgspec.json.encode({key: _listed(_dense(value)) for key, value in row.items()}, enc_hook=str)
            if len(data) > LINE_BYTES_MAX:
                raise UnreadableError(f"{place}:{number}", f"the row is longer than {LINE_BYTES_MAX >> 20} MiB")
            yield data
    except UnreadableError:
        raise
    except RecursionError:
        raise UnreadableError(f"{place}:{number}", "nested too deeply") from None
    except Exception as error:  # a foreign library's, of any kind: bad files raise whatever lay at hand
        where = f"{place}:{number + 1}" if number else place
        raise UnreadableError(where, f"cannot be read as a table: {_told(error)}", hint=hint) from error


def _told(error: BaseException) -> str:
    """Return what an error says, in one line of bearable length."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _dense(value: Any) -> Any:
    """Return `value` without the null fields of its structs."""
    if isinstance(value, dict):
        return {key: _dense(item) for key, item in value.items() if item is not None}
    return [_dense(item) for item in value] if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    """Return messages that are stored column by column as a list of messages; other values as they are."""
    if not isinstance(value, dict) or not any(isinstance(value.get(name), list) for name in _SPEAKERS):
        return value
    columns = list(value.values())
    if any(not isinstance(column, list) or len(column) != len(columns[0]) for column in columns):
        return value
    return [
        {key: item for key, item in zip(value, items, strict=True) if item is not None}
        for items in zip(*columns, strict=True)
    ]

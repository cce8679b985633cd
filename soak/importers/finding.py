"""A corpus by its name or path."""

from pathlib import Path

from soak.errors import CorpusError
from soak.shelves import meant, on_shelves


def available_corpora() -> dict[str, Path]:
    """Return the corpora that can be given by name, in alphabetical order."""
    return on_shelves("transcripts", "*", lambda path: path.is_dir() and any(path.glob("*.jsonl")))


def find_corpus(name_or_path: str) -> Path:
    """Return the folder of a corpus given by path or by name; raises `CorpusError` naming those that exist."""
    path = Path(name_or_path)
    if path.is_dir():
        return path
    known = available_corpora()
    if name_or_path in known:
        return known[name_or_path]
    raise CorpusError(
        f"no corpus {name_or_path!r}",
        why=f"it is no folder, and the corpora known by name are: {', '.join(known) or 'none'}",
        hint=f"{meant(name_or_path, known)}give one of these names or the path of a folder with .jsonl files",
    )

"""Where corpora live: the working folder's, the checkout's, and those a wheel carries."""

import difflib
from pathlib import Path

import soak
from soak.errors import CorpusError

_PACKAGE = Path(soak.__file__).parent


def corpus_folders() -> tuple[Path, ...]:
    """Return the folders searched for a corpus by name, first match wins."""
    return (Path("transcripts"), _PACKAGE.parent / "transcripts", _PACKAGE / "_data" / "transcripts")


def available_corpora() -> dict[str, Path]:
    """Return the corpora that can be given by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for folder in corpus_folders():
        for path in folder.glob("*"):
            if path.is_dir() and any(path.glob("*.jsonl")):
                found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def find_corpus(name_or_path: str) -> Path:
    """Return the folder of a corpus given by path or by name; raises `CorpusError` naming those that exist."""
    path = Path(name_or_path)
    if path.is_dir():
        return path
    known = available_corpora()
    if name_or_path in known:
        return known[name_or_path]
    near = difflib.get_close_matches(name_or_path, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise CorpusError(
        f"no corpus {name_or_path!r}",
        why=f"it is no folder, and the corpora known by name are: {', '.join(known) or 'none'}",
        hint=f"{hint}give one of these names or the path of a folder with .jsonl files",
    )

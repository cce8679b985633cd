"""`soak import` and `soak corpus`: foreign transcripts in, corpora looked at."""

from collections.abc import Sequence
from pathlib import Path

from soak.importers import (
    Corpus,
    Imported,
    available_corpora,
    check_corpus,
    find_corpus,
    load_corpus,
    read_transcripts,
    write_corpus,
)


def import_into(sources: Sequence[Path], into: Path, format_: str | None) -> Imported:
    """Read foreign transcripts, write them as a corpus, return what was read; raises `TranscriptError`, `CorpusError`."""
    imported = read_transcripts(sources, format_)
    write_corpus(into, imported.episodes, source=", ".join(path.name for path in sources))
    return imported


def corpora() -> list[Corpus]:
    """Return the corpora that can be named in a scenario."""
    return [load_corpus(find_corpus(name)) for name in available_corpora()]


def corpus(name_or_path: str) -> Corpus:
    """Return one corpus; raises `CorpusError`."""
    return load_corpus(find_corpus(name_or_path))


def problems_of(found: Corpus) -> list[str]:
    """Return what is odd about a corpus, one sentence each."""
    return check_corpus(found)

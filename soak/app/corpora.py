"""`soak import` and `soak corpus`: foreign transcripts in, corpora looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from soak.importers import (
    Corpus,
    CorpusOutline,
    CorpusProblem,
    EpisodeOutline,
    Import,
    SourceReport,
    available_corpora,
    check_corpus,
    find_corpus,
    load_corpus,
    outline,
    outline_corpus,
    redact_text,
    write_corpus,
)


@dataclass(frozen=True, kw_only=True)
class LookedAt:
    """A corpus with its numbers, whole and by episode."""

    corpus: Corpus
    outline: CorpusOutline
    episodes: tuple[EpisodeOutline, ...]


def import_into(
    sources: Sequence[Path],
    into: Path,
    format_: str | None,
    *,
    redact: bool = False,
    columns: Mapping[str, str] | None = None,
    replace: bool = False,
) -> tuple[SourceReport, ...]:
    """
    Read transcripts, write them as a corpus, return what was read; raises `TranscriptError`, `CorpusError`.

    Episodes go from the files into the corpus one by one. With `redact`, personal data and secrets are replaced;
    `columns` are names that the formats know, each with what the sources call it; with `replace`, a corpus that is
    there is exchanged. The reports say which files could not be read on.
    """
    run = Import(sources, format_, redact=redact, columns=columns)
    notes = f"Imported from {', '.join(path.name for path in sources)}."
    write_corpus(into, run.episodes(), notes=redact_text(notes) if redact else notes, replace=replace)
    return tuple(run.reports)


def corpora() -> list[CorpusOutline]:
    """Return the corpora that can be named in a scenario."""
    return [corpus(name).outline for name in available_corpora()]


def corpus(name_or_path: str) -> LookedAt:
    """Return one corpus and its numbers; raises `CorpusError`."""
    found = load_corpus(find_corpus(name_or_path))
    episodes = tuple(outline(episode) for episode in found.episodes)
    return LookedAt(corpus=found, outline=outline_corpus(found.card, found.episodes), episodes=episodes)


def problems_of(name_or_path: str) -> tuple[CorpusProblem, ...]:
    """Return what is odd about a corpus; raises `CorpusError` if it cannot be read at all."""
    return check_corpus(load_corpus(find_corpus(name_or_path)).episodes)

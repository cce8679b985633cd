"""
Corpora in and out, foreign transcripts → episodes, one module per format, and conversations → other tools' files.

The only room that knows foreign formats. May touch: the files it is asked to read, the folder or file it is asked to
write, and the Hugging Face Hub where a source is named that is there (`tables` is the door to it). Every file is
hostile: sizes, counts and nesting are bounded, and what is dropped or repaired is counted.
"""

from soak.importers.checking import CorpusProblem, check_corpus
from soak.importers.corpus import Corpus, corpus_digest, load_corpus, refuse_taken, write_corpus
from soak.importers.exporting import (
    EXPORT_FORMATS,
    Composed,
    Exported,
    ExportFormat,
    export,
    recorded_parameters,
)
from soak.importers.finding import available_corpora, find_corpus
from soak.importers.outline import CorpusOutline, EpisodeOutline, outline, outline_corpus
from soak.importers.redaction import redact, redact_text
from soak.importers.tally import Broken, Counts, SourceReport
from soak.importers.transcripts import FORMATS, Import, Imported, read_transcripts

__all__ = [
    "EXPORT_FORMATS",
    "FORMATS",
    "Broken",
    "Composed",
    "Corpus",
    "CorpusOutline",
    "CorpusProblem",
    "Counts",
    "EpisodeOutline",
    "ExportFormat",
    "Exported",
    "Import",
    "Imported",
    "SourceReport",
    "available_corpora",
    "check_corpus",
    "corpus_digest",
    "export",
    "find_corpus",
    "load_corpus",
    "outline",
    "outline_corpus",
    "read_transcripts",
    "recorded_parameters",
    "redact",
    "redact_text",
    "refuse_taken",
    "write_corpus",
]

"""
Corpora in and out, and foreign transcripts → episodes, one module per format.

The only room that knows foreign formats. May touch: the files it is asked to read, and a corpus folder it is asked to
write. Every file is hostile: sizes, counts and nesting are bounded, and what is dropped or repaired is counted.
"""

from soak.importers.checking import CorpusProblem, check_corpus
from soak.importers.corpus import Corpus, corpus_digest, load_corpus, write_corpus
from soak.importers.finding import available_corpora, find_corpus
from soak.importers.outline import CorpusOutline, EpisodeOutline, outline, outline_corpus
from soak.importers.redaction import redact
from soak.importers.tally import Counts, SourceReport
from soak.importers.tasks import find_tasks, lines_of_tasks, load_tasks, tasks_as_corpus, tasks_digest
from soak.importers.transcripts import FORMATS, Import, Imported, read_transcripts

__all__ = [
    "FORMATS",
    "Corpus",
    "CorpusOutline",
    "CorpusProblem",
    "Counts",
    "EpisodeOutline",
    "Import",
    "Imported",
    "SourceReport",
    "available_corpora",
    "check_corpus",
    "corpus_digest",
    "find_corpus",
    "find_tasks",
    "lines_of_tasks",
    "load_corpus",
    "load_tasks",
    "outline",
    "outline_corpus",
    "read_transcripts",
    "redact",
    "tasks_as_corpus",
    "tasks_digest",
    "write_corpus",
]

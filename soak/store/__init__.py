"""
The run folder: all that is needed to judge, compare or report a run, on any machine.

May touch: files in a run folder or a probe's, and nothing else; `store` is the only module that writes there. It
knows no HTTP, no scenario and no verdict. The format of the folder is in `folder.py`, that of the history in
`schema.py`; probes keep `journal.py` and `scores.py`.
"""

from soak.store.bisect_folder import BisectFolder
from soak.store.folder import RunFolder, engine_log_path
from soak.store.history import History
from soak.store.journal import Journal, read_journal
from soak.store.resume import close_open_starts
from soak.store.scores import ScoreFile, scored_keys
from soak.store.writer import HistoryWriter

__all__ = [
    "BisectFolder",
    "History",
    "HistoryWriter",
    "Journal",
    "RunFolder",
    "ScoreFile",
    "close_open_starts",
    "engine_log_path",
    "read_journal",
    "scored_keys",
]

"""
Foreign files → episodes: each file's format is recognised by its content, never by its name.

A file is JSON Lines, one JSON document, an archive of them, or a table (parquet, arrow, a data set on the Hub). A file
that cannot be read on is told with its place and reason, and the others are read; where that is true of all of them,
the import fails. A last line that was cut off (a writer that crashed) is dropped and counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import TranscriptError
from soak.facts import Episode, characters
from soak.importers import (
    agentperf,
    atif,
    bfcl,
    claude_code,
    codex,
    completion_log,
    dataset_rows,
    inspect_log,
    litellm_log,
    lmcache,
    mini_swe_agent,
    mlperf,
    mooncake,
    openai_chat,
    openhands_v0,
    openhands_v1,
    otel,
    own_corpus,
    sglang_trace,
    sharegpt,
    swe_agent,
    tau2_bench,
    tau_bench,
    tracelab,
    weka,
)
from soak.importers.assembly import safe_id
from soak.importers.dataset_rows import TASK
from soak.importers.entries import Format
from soak.importers.reading import UnreadableError
from soak.importers.redaction import redact_episode
from soak.importers.sources import Source, files_under, sources_of
from soak.importers.tally import SourceReport, Tally

FILES_MAX = 10_000
EPISODES_MAX = 100_000
EPISODE_CHARACTERS_MAX = 16 << 20

# The order in which formats are asked: the narrow before the wide.
_FORMATS: tuple[Format, ...] = (
    own_corpus.FORMAT,
    mini_swe_agent.FORMAT,
    swe_agent.FORMAT,
    atif.FORMAT,
    claude_code.FORMAT,
    codex.FORMAT,
    openhands_v1.FORMAT,
    openhands_v0.FORMAT,
    completion_log.FORMAT,
    litellm_log.FORMAT,
    agentperf.FORMAT,
    inspect_log.FORMAT,
    otel.FORMAT,
    sglang_trace.FORMAT,
    sharegpt.FORMAT,
    weka.FORMAT,
    mooncake.FORMAT,
    tracelab.FORMAT,
    tau_bench.FORMAT,
    tau2_bench.FORMAT,
    bfcl.FORMAT,
    mlperf.FORMAT,
    lmcache.FORMAT,
    dataset_rows.FORMAT,
    openai_chat.FORMAT,
)
FORMATS: tuple[str, ...] = tuple(one.name for one in _FORMATS)
_KNOWN = f"formats known: {', '.join(FORMATS)}; name one with --format if you know it better"
_MEND = "mend that place or leave it out, and import again"
_TASKS = "name the rows in a scenario with replay: agent; an import takes trajectories, such as those of SWE-smith"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The episodes read, with ids made different from each other, and one report a source."""

    episodes: tuple[Episode, ...]
    reports: tuple[SourceReport, ...]


class Import:
    """
    An import in progress: `episodes()` yields them one by one; afterwards `reports` tells of each source.

    Nothing is kept of an episode that was handed over but its digest, so that files of any size can be imported.
    `columns` are names that the formats know (`messages`, `id`), each with what the files call it.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        format: str | None = None,  # noqa: A002 - the option's name
        *,
        redact: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self.reports: list[SourceReport] = []
        self._paths = paths
        self._redact = redact
        self._columns = columns or {}
        self._format = _named(format)
        self._seen: set[str] = set()
        self._ids: dict[str, int] = {}
        self._number = 0

    def episodes(self) -> Iterator[Episode]:
        """
        Yield the episodes; the reports say which files could not be read on.

        Raises `TranscriptError`, after the last of them, where that is true of every source that held an episode, and
        where none was found.
        """
        for source in sources_of(self._files(), self._recognise, self._columns):
            try:
                yield from self._read(source)
            except UnreadableError as error:
                source.tally.break_off(error.place, error.why, error.hint)
            self.reports.append(source.tally.report())
        if any(report.episodes and not report.broken for report in self.reports):
            return
        for report in self.reports:
            for broken in report.broken:
                raise _wrong(broken.place, broken.why, broken.hint or (_MEND if report.format else _KNOWN))
        tasks = any(TASK in report.dropped for report in self.reports)
        raise _wrong(", ".join(map(str, self._paths))[:200], _nothing(self.reports), _TASKS if tasks else _KNOWN)

    def _files(self) -> Iterator[tuple[Path, bool]]:
        """Yield the files to read, in a stable order, each with whether it was named by itself."""
        number = 0
        for path in self._paths:
            for file, named in _under(path):
                number += 1
                if number > FILES_MAX:
                    raise _wrong(str(path), f"more than {FILES_MAX} files", "import fewer files at a time")
                yield file, named

    def _recognise(self, value: Any) -> Format | None:
        return self._format or next((one for one in _FORMATS if one.recognises(value)), None)

    def _read(self, source: Source) -> Iterator[Episode]:
        """Yield the episodes of one source, each with where it came from in its `meta`."""
        tally = source.tally
        if source.format is None:
            if tally.broken:
                return
            if source.named:
                raise UnreadableError(tally.source, "its format is not recognised")
            if not tally.dropped:
                tally.drop("a file whose format is not recognised")
            return
        tally.format = source.format.name
        origin = {**source.origin, "format": source.format.name}
        for episode in source.format.read(source.entries, source.name, tally):
            if not self._is_new(episode, tally):
                continue
            kept = msgspec.structs.replace(episode, meta={**origin, **episode.meta})
            if self._redact:
                kept, counts = redact_episode(kept)
                tally.redacted.update(counts)
            kept = self._with_own_id(kept, tally)
            tally.add(kept)
            self._number += 1
            if self._number > EPISODES_MAX:
                raise _wrong(tally.source, f"more than {EPISODES_MAX} episodes", "import fewer files at a time")
            yield kept

    def _is_new(self, episode: Episode, tally: Tally) -> bool:
        """Return whether the episode is to be kept; one that was read before or is too large is counted."""
        if sum(characters(node.message) for node in episode.nodes) > EPISODE_CHARACTERS_MAX:
            tally.discard(f"a conversation of more than {EPISODE_CHARACTERS_MAX >> 20} Mi characters", episode)
            return False
        content = "".join(node.digest for node in episode.nodes if node.parent is None) + episode.nodes[-1].digest
        if content in self._seen and not episode.meta.get("load_shape"):
            tally.discard("a conversation that was read before", episode)
            return False
        self._seen.add(content)
        return True

    def _with_own_id(self, episode: Episode, tally: Tally) -> Episode:
        """Return the episode with an id that no other has."""
        id_ = base = safe_id(episode.id)
        if id_ in self._ids:
            tally.repair("an id used before, numbered")
        while id_ in self._ids:
            self._ids[base] += 1
            id_ = f"{base}.{self._ids[base]}"
        self._ids[id_] = 1
        return episode if id_ == episode.id else msgspec.structs.replace(episode, id=id_)


def read_transcripts(
    paths: Sequence[Path],
    format: str | None = None,  # noqa: A002 - the option's name
    *,
    redact: bool = False,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """
    Return the episodes in these files, folders (their files of known suffixes, at any depth) and data sets (`hf://…`).

    `format` is one of `FORMATS`; None recognises each file by content. A file named by itself must be of a known
    format; one found in a folder is passed over and reported. The name "agentperf-local", where no file has it, stands
    for the tasks in the installed package of that name. Raises `TranscriptError` as `Import.episodes` does.
    """
    run = Import(paths, format, redact=redact, columns=columns)
    episodes = tuple(run.episodes())
    return Imported(episodes=episodes, reports=tuple(run.reports))


def _named(name: str | None) -> Format | None:
    if name is None or name in FORMATS:
        return next((one for one in _FORMATS if name == one.name), None)
    raise _wrong("the format", f"{name!r} is not known", _KNOWN)


def _under(path: Path) -> Iterator[tuple[Path, bool]]:
    if str(path) == agentperf.PACKAGE and not path.exists():
        return ((file, True) for file in agentperf.installed_traces())
    return files_under(path)


def _nothing(reports: Sequence[SourceReport]) -> str:
    """Return why no episode was found."""
    reasons = {reason for report in reports for reason in report.dropped}
    return f"no conversation was found in {len(reports)} sources ({'; '.join(sorted(reasons)[:5]) or 'none held any'})"


def _wrong(place: str, why: str, hint: str) -> TranscriptError:
    return TranscriptError(f"cannot import {place}", why=why, hint=hint)

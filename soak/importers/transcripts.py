"""
Foreign files → episodes: each file's format is recognised by its content, never by its name.

A file is JSON Lines, one JSON document, or an archive of them. What cannot be read ends the import with the file and
the line named, except a last line that was cut off (a writer that crashed), which is dropped and counted.
"""

from collections.abc import Iterator, Sequence
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


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The episodes read, with ids made different from each other, and one report a source."""

    episodes: tuple[Episode, ...]
    reports: tuple[SourceReport, ...]


class Import:
    """
    An import in progress: `episodes()` yields them one by one; afterwards `reports` tells of each source.

    Nothing is kept of an episode that was handed over but its digest, so that files of any size can be imported.
    """

    def __init__(self, paths: Sequence[Path], format: str | None = None, *, redact: bool = False) -> None:  # noqa: A002
        self.reports: list[SourceReport] = []
        self._paths = paths
        self._redact = redact
        self._format = _named(format)
        self._seen: set[str] = set()
        self._ids: dict[str, int] = {}
        self._number = 0

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes; raises `TranscriptError` naming the file and entry that cannot be read."""
        try:
            for source in sources_of(self._files(), self._recognise):
                yield from self._read(source)
                self.reports.append(source.tally.report())
        except UnreadableError as error:
            raise _wrong(error.place, error.why, _KNOWN) from error
        if not self._number:
            raise _wrong(", ".join(map(str, self._paths))[:200], _nothing(self.reports), _KNOWN)

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
            if source.named:
                raise UnreadableError(tally.source, "its format is not recognised")
            if not tally.dropped:
                tally.drop("a file whose format is not recognised")
            return
        tally.format = source.format.name
        origin = {"source": Path(tally.source).name, "format": source.format.name}
        for episode in source.format.read(source.entries, source.name, tally):
            kept = self._new(episode, tally)
            if kept is None:
                continue
            kept = msgspec.structs.replace(kept, meta={**origin, **kept.meta})
            if self._redact:
                kept, counts = redact_episode(kept)
                tally.redacted.update(counts)
            tally.add(kept)
            self._number += 1
            if self._number > EPISODES_MAX:
                raise _wrong(tally.source, f"more than {EPISODES_MAX} episodes", "import fewer files at a time")
            yield kept

    def _new(self, episode: Episode, tally: Tally) -> Episode | None:
        """Return the episode with an id of its own; None, counted, if it was read before or is too large."""
        if sum(characters(node.message) for node in episode.nodes) > EPISODE_CHARACTERS_MAX:
            tally.discard(f"a conversation of more than {EPISODE_CHARACTERS_MAX >> 20} Mi characters", episode)
            return None
        content = "".join(node.digest for node in episode.nodes if node.parent is None) + episode.nodes[-1].digest
        if content in self._seen and not episode.meta.get("load_shape"):
            tally.discard("a conversation that was read before", episode)
            return None
        self._seen.add(content)
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
) -> Imported:
    """
    Return the episodes in these files and folders (their .json, .jsonl, .ndjson, .traj and .eval files, at any depth).

    `format` is one of `FORMATS`; None recognises each file by content. A file named by itself must be of a known
    format; one found in a folder is passed over and reported. The name "agentperf-local", where no file has it, stands
    for the tasks in the installed package of that name. Raises `TranscriptError` naming the file and line.
    """
    run = Import(paths, format, redact=redact)
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

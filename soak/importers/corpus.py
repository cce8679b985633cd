"""
A corpus: a folder of JSONL files with one episode a line, and a CORPUS.md for people.

The form of a line is told in `soak.facts.episode`. Files are read in the order of their names. A corpus is accepted
whole or not at all: limits, links and ids are checked line by line, and the first wrong line is named.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import CorpusError
from soak.facts import CorpusCard, Episode, Turn, canonical, episode_from_json, episode_to_json
from soak.importers.outline import CorpusOutline, EpisodeOutline, outline, sum_outlines
from soak.importers.reading import DEPTH_MAX, LINE_BYTES_MAX, UnreadableError, flaw_of, lines_of

FILES_MAX = 1_000
EPISODES_MAX = 100_000
BYTES_MAX = 2 << 30
CARD_FILE = "CORPUS.md"
EPISODES_FILE = "episodes.jsonl"

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+=-]{0,149}\Z")
_CHECK = "see the form of a line in soak/facts/episode.py; look at the whole corpus with: soak corpus check"


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """A corpus in memory: its card and its episodes in order."""

    card: CorpusCard
    episodes: tuple[Episode, ...]


def load_corpus(folder: Path) -> Corpus:
    """Return the corpus in `folder`; raises `CorpusError` naming the first file and line that cannot be used."""
    episodes: list[Episode] = []
    places: dict[str, str] = {}
    for path in _files(folder):
        for place, episode in _episodes(path):
            if episode.id in places:
                raise _wrong(place, f"the episode id {episode.id!r} is already used at {places[episode.id]}")
            if len(episodes) >= EPISODES_MAX:
                raise _wrong(place, f"a corpus has at most {EPISODES_MAX} episodes")
            places[episode.id] = place
            episodes.append(episode)
    if not episodes:
        raise _wrong(str(folder), "it has no episode in it")
    return Corpus(card=_card(folder, episodes), episodes=tuple(episodes))


def corpus_digest(episodes: Sequence[Episode]) -> str:
    """Return `sha256:<hex>` over ids, messages, tools, links and turns of the episodes in order, not over `meta`."""
    total = hashlib.sha256()
    for episode in episodes:
        total.update(_digest_part(episode))
    return "sha256:" + total.hexdigest()


def _digest_part(episode: Episode) -> bytes:
    nodes = [[node.digest, node.parent] for node in episode.nodes]
    turns = [[turn.prefix, turn.answer, turn.wait_s, turn.completion_tokens] for turn in episode.turns]
    return canonical([episode.id, nodes, turns]) + b"\n"


def write_corpus(folder: Path, episodes: Iterable[Episode], notes: str = "", *, replace: bool = False) -> CorpusCard:
    """
    Write `episodes` as a new corpus and return its card; `notes` (Markdown: source, licence) go into its CORPUS.md.

    The episodes are taken one by one and not kept, so that more of them than fit in memory can be written. The folder
    appears whole or not at all. With `replace`, a corpus that is there is exchanged. Raises `CorpusError` if there is
    no episode, two have the same id, one cannot be used, or the folder holds something else.
    """
    refuse_taken(folder, replace)
    part = folder.parent / f".{folder.name}.{os.getpid()}.part"
    try:
        part.mkdir(parents=True)
        card, numbers = _write_episodes(part / EPISODES_FILE, folder, episodes)
        write_whole(part / CARD_FILE, _card_text(card, numbers, notes).encode())
        exchange(part, folder)
    except OSError as error:
        raise _wrong(str(folder), f"cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return card


def _write_episodes(path: Path, folder: Path, episodes: Iterable[Episode]) -> tuple[CorpusCard, CorpusOutline]:
    """Write the episodes line by line and wait until they are on the disk; return their card and numbers."""
    seen: set[str] = set()
    outlines: list[EpisodeOutline] = []
    total = hashlib.sha256()
    with path.open("wb") as file:
        for episode in episodes:
            problem = check_episode(episode) or ("another one has the same id" if episode.id in seen else None)
            if problem is not None:
                raise _wrong(str(folder), f"episode {episode.id[:60]!r}: {problem}")
            seen.add(episode.id)
            total.update(_digest_part(episode))
            outlines.append(outline(episode))
            line = episode_to_json(episode) + b"\n"
            if len(line) > LINE_BYTES_MAX:
                raise _wrong(str(folder), f"episode {episode.id!r} is longer than {LINE_BYTES_MAX >> 20} MiB")
            file.write(line)
            if file.tell() > BYTES_MAX:
                raise _wrong(str(folder), f"a corpus has at most {BYTES_MAX >> 30} GiB", hint="import in parts")
        file.flush()
        os.fsync(file.fileno())
    if not outlines:
        raise _wrong(str(folder), "there is no episode to write")
    card = CorpusCard(
        name=folder.resolve().name,
        path=str(folder),
        digest="sha256:" + total.hexdigest(),
        episodes=len(outlines),
        turns=sum(one.turns for one in outlines),
    )
    return card, sum_outlines(card, outlines)


def check_episode(episode: Episode) -> str | None:
    """Return what makes an episode unusable in a corpus (id, links, nesting), or None."""
    if not _ID.match(episode.id):
        return f"the id {episode.id[:60]!r} is not 1 to 150 letters, digits, _ . @ + = or -"
    if not episode.nodes:
        return "it has no message"
    for turn in episode.turns:
        if min(turn.wait_s or 0, turn.completion_tokens or 0) < 0:
            return f"turn {turn.index}: its wait_s or completion_tokens is negative"
        answer = None if turn.answer is None else episode.nodes[turn.answer]
        if answer is not None and answer.message.role != "assistant":
            return f"turn {turn.index}: its answer, message {turn.answer}, is by the {answer.message.role}"
        if answer is not None and not _is_seen(episode, turn, answer.parent):
            return f"turn {turn.index}: its answer, message {turn.answer}, does not follow message {turn.prefix}"
    free: list[Any] = [list(episode.tools), episode.meta, *(node.message.content for node in episode.nodes)]
    return next((flaw for value in free if (flaw := flaw_of(value)) is not None), None)


def _is_seen(episode: Episode, turn: Turn, parent: int | None) -> bool:
    """
    Return whether the message before an answer is the last one of its prefix, or one of those before it.

    The latter where a request ended in messages that later requests no longer have.
    """
    at: int | None = turn.prefix
    while at is not None and at != parent:
        at = episode.nodes[at].parent
    return at is not None


def _files(folder: Path) -> list[Path]:
    """Return the JSONL files of a corpus in the order of their names."""
    if not folder.is_dir():
        raise _wrong(str(folder), "there is no such folder")
    files = sorted(path for path in folder.glob("*.jsonl") if path.is_file())
    if not files:
        raise _wrong(str(folder), "it holds no .jsonl file, so it is no corpus")
    size = sum(path.stat().st_size for path in files)
    if len(files) > FILES_MAX or size > BYTES_MAX:
        raise _wrong(str(folder), f"a corpus has at most {FILES_MAX} files and {BYTES_MAX >> 30} GiB")
    return files


def _episodes(path: Path) -> Iterator[tuple[str, Episode]]:
    """Yield the episodes of one file, each with its place."""
    try:
        for line in lines_of(path):
            place = f"{path}:{line.number}"
            yield place, _episode(line.data, place)
    except UnreadableError as error:
        raise _wrong(error.place, error.why) from error


def _episode(data: bytes, place: str) -> Episode:
    """Return the episode in one line; raises `UnreadableError` if there is none."""
    try:
        data.decode()
        episode = episode_from_json(data)
    except UnicodeDecodeError as error:
        raise UnreadableError(place, f"is not UTF-8 (byte {error.start} of the line)") from error
    except RecursionError:
        raise UnreadableError(place, f"nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:  # msgspec's errors are ValueErrors too
        raise UnreadableError(place, f"is not an episode: {error}") from error
    problem = check_episode(episode)
    if problem is not None:
        raise UnreadableError(place, problem)
    return episode


def _card(folder: Path, episodes: Sequence[Episode]) -> CorpusCard:
    return CorpusCard(
        name=folder.resolve().name,
        path=str(folder),
        digest=corpus_digest(episodes),
        episodes=len(episodes),
        turns=sum(len(episode.turns) for episode in episodes),
    )


def refuse_taken(folder: Path, replace: bool = False) -> None:
    """Raise `CorpusError` unless `folder` is absent, empty, or a corpus that may be replaced."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise _wrong(str(folder), "it is a file", hint="name a folder")
    names = sorted(path.name for path in folder.iterdir())
    strange = [name for name in names if name != CARD_FILE and not name.endswith(".jsonl")]
    if strange or (names and CARD_FILE not in names):
        told = ", ".join(strange[:3]) or f"no {CARD_FILE}"
        raise _wrong(str(folder), f"the folder is in use and is no corpus ({told})", hint="name a new folder")
    if names and not replace:
        raise _wrong(str(folder), "a corpus is there already", hint="name a new folder, or add --replace")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def exchange(part: Path, folder: Path) -> None:
    """Put a finished folder in its place; one that was there goes only after the new one stands."""
    old = folder.parent / f".{folder.name}.{os.getpid()}.old"
    if folder.exists():
        folder.rename(old)
    try:
        part.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _card_text(card: CorpusCard, numbers: CorpusOutline, notes: str) -> str:
    """Return CORPUS.md."""
    licences = ", ".join(f"{name} ({count})" for name, count in numbers.licences.items()) or "not stated"
    lines = [
        f"# {card.name}",
        "",
        *([notes.strip(), ""] if notes.strip() else []),
        "- Format: `soak.episode/1`, JSONL, one episode a line.",
        f"- {card.episodes} episodes, {card.turns} turns, {numbers.calls} tool calls, {numbers.results} tool results.",
        f"- {numbers.characters:,} characters; deepest prefix {numbers.deepest_characters:,} characters, about "
        f"{numbers.deepest_tokens:,} tokens.",
        f"- Licences of the episodes: {licences}.",
        f"- Digest: `{card.digest}`",
        "",
    ]
    return "\n".join(lines)


def _wrong(place: str, why: str, hint: str = _CHECK) -> CorpusError:
    return CorpusError(f"the corpus cannot be used: {place}", why=why, hint=hint)

"""A file of scores (`soak.facts.rescoring`) that grows: one line an answer, whole or not there, resumed by its key."""

from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from soak.errors import RunFolderError
from soak.facts import RescoredOutput, RescoringCard, TurnKey, decode, encode
from soak.store.journal import Journal, read_journal


class _Line(msgspec.Struct):
    key: TurnKey | None = None


def scored_keys(path: Path) -> set[TurnKey]:
    """Return whose answers a file of scores holds, none where there is no file; raises `RunFolderError` for damage."""
    return {line.key for line in read_journal(path, _Line) if line.key is not None}


class ScoreFile:
    """A context manager: opens (or makes) the file and holds its lock; raises `RunFolderError` where it is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.card: RescoringCard | None = None
        """Whose scores they are; None until `begin`, in a new file."""
        self.outputs: dict[TurnKey, RescoredOutput] = {}
        """All answers scored so far, in the order in which they were."""
        self._journal = Journal(path, msgspec.Raw)

    def __enter__(self) -> Self:
        self._journal.__enter__()
        try:
            self._read(self._journal.kept)
        except BaseException:
            self._journal.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._journal.__exit__(kind, error, trace)

    def begin(self, card: RescoringCard) -> None:
        """Say whose scores come; raises `RunFolderError` where the file holds those of another pair of servers."""
        if self.card is None:
            self._write(card)
            self.card = card
        elif self.card != card:
            raise self._wrong(f"it holds {self.card.sampled_by} scored by {self.card.scored_by}")

    def add(self, output: RescoredOutput) -> None:
        """Keep one answer's scores, after `begin`; raises `RunFolderError` if the disk does not take them."""
        assert self.card is not None, "begin comes first"
        self._write(output)
        self.outputs[output.key] = output

    def _write(self, fact: msgspec.Struct) -> None:
        self._journal.add(msgspec.Raw(encode(fact)))
        self._journal.kept.clear()  # they are held once, decoded

    def _read(self, lines: list[msgspec.Raw]) -> None:
        try:
            facts = [bytes(line) for line in lines]
            self.card = decode(facts[0], RescoringCard) if facts else None
            read = [decode(fact, RescoredOutput) for fact in facts[1:]]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._wrong(str(error)) from None
        if problem := next((output.problem for output in read if output.problem), None):
            raise self._wrong(problem)
        self.outputs = {output.key: output for output in read}
        lines.clear()

    def _wrong(self, why: str) -> RunFolderError:
        return RunFolderError(
            f"{self.path} cannot be gone on with", why=why, hint="give another folder with --into for another pair"
        )

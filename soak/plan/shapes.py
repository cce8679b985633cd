"""
What the load does to bring faults out, turn by turn: all from the seed, the same for both arms.

- *overlap*: an episode is gone through by several siblings in one pass. A sibling has a pass number of its own
  (pass × siblings + its place), so that its turns have names of their own and still count to one episode.
- *staggered*: where a turn's prompt is to end, in tokens beyond a whole number of blocks, and words to pad it with.
- *abort*: after how many characters of its answer a turn is closed.
- *idle gaps*: after how many turns the server is left alone, and for how long.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from soak.facts import Abort, Episode, IdleGaps, Load, Staggered, Turn
from soak.plan.seeds import chance

# Words of three letters: with the space before it each is one token in the vocabularies in use, so that a length is met
# in a few tries; where one is not, a try more is needed.
_TEXT = """
the and for are but not you all can her was one our out day get has him his how man new now old see two way
who boy did its let put say she too use any big end far few got had hot job law low map may men met mix net
off own pay per red run saw set sit six sun tax ten top try war wet why win yes yet age air arm art bad bag
bed bit box bus buy car
"""
_WORDS = tuple(_TEXT.split())


class Gap(NamedTuple):
    """A pause with nothing in flight once `after_turns` turns of the run have begun (counted from its beginning)."""

    after_turns: int
    length_s: float


def siblings_of(load: Load) -> int:
    """Return how many pass numbers one pass takes."""
    return load.overlap.siblings if load.overlap else 1


def branch_of(load: Load, seed: int, episode: Episode) -> int | None:
    """Return the index of the first turn that an episode's siblings send; None where it is gone through once."""
    overlap = load.overlap
    if overlap is None or not episode.turns or chance("overlap", seed, episode.id) >= overlap.share:
        return None
    return min(int(overlap.depth * len(episode.turns)), len(episode.turns) - 1)


def aside_for(seed: int, episode: str, sibling: int) -> str:
    """Return the few words by which a sibling differs from the others."""
    words = " ".join(filler(seed, f"{episode}~{sibling}", 3))
    return f"\n\n(Aside {sibling}: {words}.)"


def abort_after(abort: Abort | None, seed: int, episode: str, turn: int, pass_: int) -> int | None:
    """Return after how many characters of its answer we close a turn; None for a turn that is let run."""
    if abort is None or chance("abort", seed, episode, turn, pass_) >= abort.share:
        return None
    at = chance("abort at", seed, episode, turn, pass_)
    return abort.min_chars + int(at * (abort.max_chars - abort.min_chars + 1))


def offset_for(staggered: Staggered, seed: int, episode: str, turn: int, pass_: int) -> int:
    """Return how many tokens beyond a whole number of blocks a turn's prompt is to have; may be negative."""
    return staggered.offsets[int(chance("offset", seed, episode, turn, pass_) * len(staggered.offsets))]


def filler(seed: int, name: str, words: int) -> Iterator[str]:
    """Yield the first words of the endless padding called `name`."""
    for i in range(words):
        yield _WORDS[int(chance("filler", seed, name, i) * len(_WORDS))]


def gaps(idle: IdleGaps, seed: int) -> Iterator[Gap]:
    """Yield without end the pauses of a run, in order: half to one and a half times `every_turns` turns apart."""
    after = 0
    for i in itertools.count():
        after += max(1, round(idle.every_turns * (0.5 + chance("gap after", seed, i))))
        yield Gap(after, idle.min_s + chance("gap", seed, i) * (idle.max_s - idle.min_s))


def sent_by(episode: Episode, branch: int | None) -> tuple[Turn, ...]:
    """Return the turns of an episode that one trip through it sends."""
    return episode.turns[branch or 0 :]

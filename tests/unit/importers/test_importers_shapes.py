"""Traces without text: lengths to the token, shared prefixes, answers in between, and the same text every time."""

import json
from pathlib import Path
from typing import Any

import pytest

from soak.facts import CorpusCard, Episode, Message, make_episode
from soak.importers import Corpus, read_transcripts
from soak.importers.filler import Filler
from soak.importers.load_shape import Shape, shaped
from soak.importers.tally import Tally


def filler(text: str = "".join(f"line {i} of the log\n" for i in range(900))) -> Filler:
    """Return a filler over a corpus of one text."""
    episode = make_episode("e", [Message(role="user", content=text), Message(role="assistant", content="")])
    card = CorpusCard(name="c", path="c", digest="d", episodes=1, turns=1)
    return Filler(Corpus(card=card, episodes=(episode,)))


def shape(blocks: list[int | str], prompt: int, completion: int = 5, **more: Any) -> Shape:
    """Return a request of blocks of ten tokens."""
    return Shape(blocks=blocks, block_tokens=10, prompt_tokens=prompt, completion_tokens=completion, **more)


def made(*shapes: Shape, id_: str = "e", **more: Any) -> Episode:
    """Return the episode of these requests."""
    episode = shaped(id_, shapes, scope="s", filler=filler(), tally=Tally(source="s"), **more)
    assert episode is not None
    return episode


def sent(episode: Episode) -> list[str]:
    """Return all that is sent at each turn, as one text."""
    return ["".join(str(message.content) for message in episode.prefix(turn)) for turn in episode.turns]


def roles(episode: Episode) -> list[str]:
    """Return who speaks at each turn, by first letters."""
    return ["".join(message.role[0] for message in episode.prefix(turn)) for turn in episode.turns]


def test_prompts_have_their_length_and_go_on_with_each_other() -> None:
    """A request that goes on begins with what was sent before, then the answer of its length, then what is new."""
    episode = made(shape([1, 2, 3], 25), shape([1, 2, 4, 5], 40), shape([1, 2, 4, 5, 6], 50, wait_s=1.5))
    first, second, third = sent(episode)
    assert [len(text) for text in (first, second, third)] == [100, 160, 200]
    assert second.startswith(first)
    assert third.startswith(second)
    assert roles(episode) == ["u", "uau", "uauau"]
    assert len(str(episode.answer(episode.turns[0]).content)) == 20  # type: ignore[union-attr]
    assert [turn.completion_tokens for turn in episode.turns] == [5, 5, 5]
    assert episode.turns[2].wait_s == 1.5


def test_same_block_has_the_same_text_everywhere() -> None:
    """Two conversations of a scope share the text of the blocks they share, and no other."""
    one, other = sent(made(shape([7, 8], 20)))[0], sent(made(shape([7, 9], 20), id_="f"))[0]
    assert one[:40] == other[:40]
    assert one[40:] != other[40:]


def test_rewritten_history_branches_off_what_both_have() -> None:
    """A request that does not go on shares the messages before the change and speaks anew from there."""
    episode = made(shape([1, 2, 3, 4], 40), shape([1, 2, 3, 4, 5, 6], 60), shape([1, 2, 3, 4, 9], 50))
    _, second, third = sent(episode)
    assert second[:160] == third[:160]
    assert second[160:200] != third[160:200]
    assert [len(text) for text in sent(episode)] == [160, 240, 200]
    assert episode.turns[1].answer is None


def test_two_conversations_in_turns_are_told_apart() -> None:
    """Requests of two contexts that alternate each go on with their own."""
    episode = made(shape([1, 2], 20), shape([7, 8], 20), shape([1, 2, 3], 30), shape([7, 8, 9], 30))
    assert roles(episode) == ["u", "u", "uau", "uau"]


def test_system_tokens_are_a_system_message() -> None:
    """The stated system prompt is a message of its own, in the first request and those that share it."""
    episode = made(shape([1, 2, 3], 30), shape([1, 2, 9], 30), system_tokens=12)
    assert roles(episode) == ["su", "su"]
    assert len(str(episode.nodes[0].message.content)) == 48


@pytest.mark.parametrize(
    "shapes", [[shape([], 1, 0)], [shape([], 3), shape([], 3)], [shape([1], 9), shape([1], 10), shape([1], 2)]]
)
def test_smallest_prompts_are_sent_whole(shapes: list[Shape]) -> None:
    """Prompts without hashes, repeated or shorter than a block have their length and end on the user."""
    episode = made(*shapes)
    assert [len(text) for text in sent(episode)] == [4 * one.prompt_tokens for one in shapes]
    assert {chain[-1] for chain in roles(episode)} == {"u"}


def test_text_is_the_corpus_s_own_and_the_same_each_time() -> None:
    """Filler is taken from the corpus and depends on the key alone."""
    one, other = filler(), filler()
    assert one.tokens("k", 50) == other.tokens("k", 50)
    assert one.tokens("k", 50)[:100] in "".join(f"line {i} of the log\n" for i in range(900)) * 2
    assert one.tokens("k", 50) != one.tokens("l", 50)
    assert len(filler("short").tokens("k", 5000)) == 20_000
    assert len(filler("").tokens("k", 10)) == 40


def test_bundled_corpus_fills_a_trace(tmp_path: Path) -> None:
    """Without more, a trace of lengths becomes an episode with the text of the corpus that comes with soak."""
    row = {"timestamp": 0, "input_length": 700, "output_length": 9, "hash_ids": [1, 2]}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    (episode,) = read_transcripts([tmp_path / "t.jsonl"]).episodes
    assert len(str(episode.nodes[0].message.content)) == 2800
    assert episode.meta["load_shape"] is True

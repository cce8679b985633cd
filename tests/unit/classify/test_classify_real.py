"""Real answers of real agents: none of them may be called what it is not."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from unit.classify.turns import answer

from soak.classify import Context, judge
from soak.errors import TranscriptError
from soak.facts import Episode, Judgement, Message, text_of
from soak.importers import load_corpus, read_transcripts

REAL = Path(__file__).parents[3].parent / "shared" / "transcripts-real"
CORPORA = Path(__file__).parents[3] / "transcripts"
# The one answer that really loops: 1,421 copies of three lines in a recorded SWE-bench run.
LOOPING = 1


class Answer(NamedTuple):
    """A recorded answer, and what is known of its turn."""

    episode: Episode
    prompt: str
    message: Message

    def judged(self, finish: str | None, *, bare: bool) -> Judgement:
        """Return its judgement, with the prompt, the tools and itself as the record, or with nothing beside it."""
        message = self.message
        native = any(node.message.tool_calls for node in self.episode.nodes)
        mode: Literal["native", "text"] = "native" if native else "text"
        full = Context(prompt_text=self.prompt, tools=self.episode.tools, reference=message, tool_mode=mode)
        observation = answer(
            text_of(message.content),
            finish or ("tool_calls" if message.tool_calls else "stop"),
            tool_calls=message.tool_calls,
            reasoning=message.reasoning or "",
        )
        return judge(observation, Context(tool_mode=mode) if bare else full)


@cache
def real_answers() -> tuple[Answer, ...]:
    """Return every different recorded answer; load shapes, whose text the importer makes up, are left out."""
    seen: dict[tuple[object, ...], Answer] = {}
    for folder in sorted(path for path in REAL.iterdir() if path.is_dir()):
        try:
            episodes = read_transcripts([folder]).episodes
        except TranscriptError:
            continue
        for found in answers_of(episodes):
            message = found.message
            calls = tuple((call.name, call.arguments) for call in message.tool_calls)
            seen.setdefault((text_of(message.content), message.reasoning, calls), found)
    return tuple(seen.values())


def answers_of(episodes: tuple[Episode, ...]) -> Iterator[Answer]:
    """Yield the recorded answers of real conversations that say or call anything."""
    for episode in episodes:
        for turn in () if episode.meta.get("load_shape") else episode.turns:
            message = episode.answer(turn)
            if message is not None and (message.tool_calls or (text_of(message.content) + (message.reasoning or ""))):
                yield Answer(episode, "\n".join(text_of(said.content) for said in episode.prefix(turn)), message)


@pytest.mark.transcripts_real
@pytest.mark.skipif(not REAL.exists(), reason="the real transcripts are not beside the checkout")
@pytest.mark.parametrize("bare", [False, True], ids=["beside prompt and record", "alone"])
def test_real_answers_are_ok(bare: bool) -> None:
    """Of all real answers none is a loop but the one that loops, none an error, three in a thousand at most early."""
    wrong: dict[str, list[str]] = {}
    for found in real_answers():
        judgement = found.judged(None, bare=bare)
        if judgement.class_ != "ok":
            wrong.setdefault(judgement.class_, []).append(f"{found.episode.id}: {judgement.reason}")
    assert len(real_answers()) > 1_000
    assert len(wrong.pop("garbage_loop", [])) == (LOOPING if bare else 0)
    assert len(wrong.pop("early_stop", [])) <= 0.003 * len(real_answers())
    assert wrong == {}


@pytest.mark.transcripts_real
@pytest.mark.skipif(not REAL.exists(), reason="the real transcripts are not beside the checkout")
@pytest.mark.parametrize("bare", [False, True], ids=["beside prompt and record", "alone"])
def test_real_answers_at_the_limit(bare: bool) -> None:
    """The same answers, had the token limit ended them, are max_tokens and no loops."""
    wrong = [
        f"{found.episode.id}: {judgement.class_}, {judgement.reason}"
        for found in real_answers()
        if (judgement := found.judged("length", bare=bare)).class_ != "max_tokens"
    ]
    assert len(wrong) == (LOOPING if bare else 0), wrong


@pytest.mark.parametrize("folder", sorted(path.parent for path in CORPORA.glob("*/CORPUS.md")), ids=lambda at: at.name)
@pytest.mark.parametrize("bare", [False, True], ids=["beside prompt and record", "alone"])
def test_bundled_answers_are_ok(folder: Path, bare: bool) -> None:
    """Every recorded answer of the bundled corpora is ok."""
    for found in answers_of(load_corpus(folder).episodes):
        judgement = found.judged(None, bare=bare)
        assert judgement.class_ == "ok", (judgement, text_of(found.message.content)[-300:])

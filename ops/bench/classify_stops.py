"""
How many early stops are seen: `python ops/bench/classify_stops.py [TRANSCRIPTS …] [--json]`, about a minute.

Recorded answers (of the bundled corpora, or of the folders of transcripts named) are cut after a word or sign drawn at
random, ended with `stop`, and judged beside prompt, tools and record, with no record, and alone. Printed is the share
called `early_stop` (and that noted as `suspect_stop`), by the place that the cut fell on: within a line the loss may
show, after a full stop or at the end of a line hardly. A dropped call is an answer whose announcement was
kept. Beside them: how many of the whole answers are called early, which none should be.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from unit.classify.turns import answer

from soak.classify import Context, judge
from soak.classify.pieces import split
from soak.classify.structure import announces, open_fence
from soak.errors import TranscriptError
from soak.facts import Episode, Message, text_of
from soak.importers import load_corpus, read_transcripts

CORPORA = Path(__file__).parents[2] / "transcripts"
KNOWN = ("record", "prompt", "alone")
CUTS = 3
LEAST_CHARS = 80


class Answer(NamedTuple):
    """A recorded answer of an episode with the text of its prompt."""

    episode: Episode
    prompt: str
    message: Message

    def class_of(self, content: str, known: str, *, calls: bool = False) -> str:
        """Return the class of an answer with this content and a normal stop; `suspect` where that is only noted."""
        native = any(node.message.tool_calls for node in self.episode.nodes)
        mode: Literal["native", "text"] = "native" if native else "text"
        context = Context(tool_mode=mode)
        if known != "alone":
            record = self.message if known == "record" else None
            context = Context(prompt_text=self.prompt, tools=self.episode.tools, reference=record, tool_mode=mode)
        ended = answer(content, "stop", tool_calls=self.message.tool_calls if calls else ())
        judgement = judge(ended, context)
        suspect = any(finding.kind == "suspect_stop" for finding in judgement.findings)
        return "suspect" if judgement.class_ == "ok" and suspect else judgement.class_


def answers(episodes: tuple[Episode, ...]) -> Iterator[Answer]:
    """Yield the recorded answers of real conversations that have content."""
    for episode in episodes:
        for turn in () if episode.meta.get("load_shape") else episode.turns:
            message = episode.answer(turn)
            if message is not None and text_of(message.content).strip():
                yield Answer(episode, "\n".join(text_of(said.content) for said in episode.prefix(turn)), message)


def read(folders: list[Path]) -> list[Answer]:
    """Return all different answers of these folders of transcripts, or of the bundled corpora."""
    if not folders:
        found = [load_corpus(at.parent).episodes for at in sorted(CORPORA.glob("*/CORPUS.md"))]
    else:
        found = [episodes for folder in folders for episodes in _episodes(folder)]
    different = {text_of(one.message.content): one for episodes in found for one in answers(episodes)}
    return list(different.values())


def _episodes(folder: Path) -> Iterator[tuple[Episode, ...]]:
    for at in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
        try:
            yield read_transcripts([at]).episodes
            if at == folder:
                return
        except TranscriptError:
            continue


def place(text: str, at: int) -> str:
    """Return what the cut before character `at` fell on."""
    head = text[:at].rstrip()
    if open_fence(head) is not None:
        return "in a fence"
    if text[:at].endswith("\n") or text[at : at + 1] in ("\n", ""):
        return "at the end of a line"
    if head[-1:] in ".!?:;" and text[at : at + 1].isspace():
        return "after a sentence"
    within = text[at - 1].isalpha() and text[at].isalpha()
    return "within a word" if within else "within a line"


def cut_places(rng: random.Random, text: str) -> Iterator[int]:
    """Yield where to cut a text: after a piece drawn at random, and once within a word of it."""
    ends = [0]
    for piece in split(text):
        ends.append(ends[-1] + len(piece))
    # Tokenizers give a single space to the word after it, so an answer that stops does not end on one.
    likely = [end for end in ends[len(ends) // 10 + 1 : -1] if not text[:end].endswith(" ")]
    yield from rng.sample(likely, min(CUTS, len(likely)))
    long = [at for at, end in pairwise(ends) if end - at >= 4 and text[at:end].isalpha() and at]
    if long:
        yield rng.choice(long) + 2


def measure(found: list[Answer]) -> dict[str, dict[str, dict[str, float]]]:
    """Return by kind of cut and by what is known: how many, and the shares of each class."""
    rng = random.Random(11)
    seen: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        text = text_of(one.message.content)
        cuts = [at for at in cut_places(rng, text) if text[:at].strip()] if len(text) >= LEAST_CHARS else []
        for known in KNOWN:
            seen["whole answers"][known].append(one.class_of(text, known, calls=True))
            if one.message.tool_calls and announces(text.rstrip()):
                seen["announced call dropped"][known].append(one.class_of(text, known))
            for at in cuts:
                kind, class_ = place(text, at), one.class_of(text[:at], known)
                seen[kind][known].append(class_)
                if kind != "within a word":
                    seen["all cuts but within words"][known].append(class_)
    return {kind: {known: _shares(classes) for known, classes in rows.items()} for kind, rows in seen.items()}


def _shares(classes: list[str]) -> dict[str, float]:
    total = len(classes)
    names = ("early_stop", "suspect", "error", "garbage_loop")
    return {"n": total} | {name: round(sum(one == name for one in classes) / total, 4) for name in names}


def table(result: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the results as text."""
    lines = [f"{'cut':28}{'known':>8}{'n':>7}{'early':>9}{'suspect':>9}{'error':>9}{'loop':>9}"]
    for kind, rows in sorted(result.items()):
        for known, row in rows.items():
            shares = "".join(f"{row[name]:>9.4f}" for name in ("early_stop", "suspect", "error", "garbage_loop"))
            lines.append(f"{kind:28}{known:>8}{row['n']:>7}{shares}")
    return "\n".join(lines)


def main() -> None:
    """Run it and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of transcripts (default: the bundled corpora)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    result = measure(read(options.folders))
    print(json.dumps(result, indent=2) if options.json else table(result))


if __name__ == "__main__":
    main()

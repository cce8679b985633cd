"""
Fresh tokens of a healthy build with speculation, scored by the same build without: for the null of `lossless.py`.

    python -m ops.bench.collect_tokens --tokens 60000 --into FOLDER [--control 0] [--target local]

Short pieces of the agent corpora are asked about in different ways; half of the tokens are drawn at temperature 1 and
top_p 0.95, half at 0.7, 0.9 and top_k 40. FOLDER is that of a probe (`soak probe --lossless`): answers are kept in
`trials.jsonl`, scores in `candidate-by-server.jsonl` (and `control-by-server.jsonl`). Servers are started one after the
other, the build as it is for `--round` tokens and then the plain one to score them; broken off at any place, the same
command goes on with what is kept.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from soak.app.probe.benches import ProbeOrder, open_benches
from soak.app.probe.lossless import LosslessOrder, probe_lossless
from soak.app.sides import arm_spec
from soak.facts import Case, LosslessFound, Message, Sampling

ROOT = Path(__file__).resolve().parents[2]
MAX_TOKENS = 192
PIECE = 500
EXPECTED = 130  # tokens an answer has on average, to size a round
LAWS = {
    "t1": Sampling(temperature=1.0, top_p=0.95, max_tokens=MAX_TOKENS),
    "t07": Sampling(temperature=0.7, top_p=0.9, top_k=40, max_tokens=MAX_TOKENS),
}
QUESTIONS = (
    "Explain what this does, step by step.",
    "Write this again with better names and a comment on each line.",
    "Which mistakes can you find here? Show the lines you would change.",
    "Go on with this text.",
    "Write a test for this.",
    "Summarise this for a colleague, and quote the most important line.",
)


class Steps:
    """Tells of the steps on stderr."""

    def preparing(self, step: str, detail: str, elapsed_s: float = 0.0, *, ended: bool = False) -> None:
        """Print a step that has ended."""
        if ended:
            print(f"{step}: {detail} ({elapsed_s:.0f} s)", file=sys.stderr, flush=True)


def pieces(corpus: Path) -> list[str]:
    """Return stretches of text of the corpus, cut at line ends, each once."""
    lines = [line for path in sorted(corpus.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines() if line]
    texts = [text for line in lines for text in strings(json.loads(line))]
    return list(dict.fromkeys(piece for text in texts for piece in cut(text)))


def strings(value: object) -> Iterator[str]:
    """Yield the contents found anywhere in a value."""
    if isinstance(value, dict):
        if isinstance(text := value.get("content"), str):
            yield text
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def cut(text: str) -> Iterator[str]:
    """Yield whole lines in stretches of about `PIECE` characters."""
    piece = ""
    for line in text.splitlines(keepends=True):
        piece += line[:PIECE]
        if len(piece) >= PIECE:
            yield piece[: 2 * PIECE]
            piece = ""


def cases(corpus: Path, count: int) -> list[Case]:
    """Return at most `count` questions, each a conversation of its own; every second under the second law."""
    found = pieces(corpus)
    random.Random(11).shuffle(found)
    names = list(LAWS)
    return [
        Case(
            name=f"{names[at % 2]}-{at:05d}",
            messages=(Message(role="user", content=f"{QUESTIONS[at // 2 % len(QUESTIONS)]}\n\n{found[at]}"),),
            sampling=LAWS[names[at % 2]],
            tool_mode="text",
        )
        for at in range(min(count, len(found)))
    ]


def collect(args: argparse.Namespace) -> None:
    """Draw and score until there are enough tokens."""
    order = ProbeOrder(target=arm_spec("candidate", args.target), folder=args.into, max_requests=10**6)
    step = max(2, round(args.round / EXPECTED))
    count = tokens = 0
    every = cases(args.corpus, 20 * args.tokens // EXPECTED + step)
    while tokens < args.tokens and count < len(every):
        count = min(count + step, len(every))
        wanted = LosslessOrder(repeats=1, control=min(args.control, count), in_flight=args.in_flight)
        with open_benches(order, Steps()) as benches:
            found = probe_lossless(every[:count], wanted, benches)
        tokens = found.result.tokens
        tell(count, found)


def tell(count: int, found: LosslessFound) -> None:
    """Say how far it is."""
    rate = f", scored at {found.cost.tokens_per_s:.0f} tokens/s" if found.cost.tokens_per_s else ""
    print(f"{count} answers, {found.result.tokens} tokens{rate}: {found.result.sentence}", flush=True)


def main() -> None:
    """Read the command line and collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=60_000)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--control", type=int, default=0, help="answers of the plain server, scored by itself")
    parser.add_argument("--target", default="local")
    parser.add_argument("--corpus", type=Path, default=ROOT / "transcripts" / "swe_agent")
    parser.add_argument("--round", type=int, default=15_000)
    parser.add_argument("--in-flight", type=int, default=8)
    collect(parser.parse_args())


if __name__ == "__main__":
    main()

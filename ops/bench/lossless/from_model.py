"""
Next-token distributions of a real model over the agent conversations of a corpus: a pool for `ops/bench/lossless.py`.

    PYTHON ops/bench/lossless/from_model.py MODEL_DIR [--corpus transcripts/swe_agent] [--out pool.npz]

PYTHON is one with torch, transformers and numpy, such as that of an embedded build; soak is not needed. Each episode of
the corpus gives as many stretches of consecutive positions as it takes, at seeded places, each behind 512 tokens of
what stands before it. The model runs in float32.

The file (numpy archive), one row per position:

  top        float16 (positions, 64)  log probabilities of the 64 most probable tokens, the most probable first
  tail       float16 (positions, b)   log of the *mean* probability within ranks 64·2^j to 64·2^(j+1) − 1, and so on to
                                      the end of the vocabulary
  previous   float16 (positions, 20)  log probability here of the 20 tokens most probable at the position before
  ranks      uint16  (positions, 20)  and their rank here, at most 65,535
  first      bool    (positions,)     whether a stretch begins here (the position before belongs to another)
  about      JSON text                model, licence, corpus, vocabulary, seed, context, positions
"""

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

WIDTH, BEFORE, CONTEXT, STRETCH = 64, 20, 512, 24


def main() -> None:
    """Score the stretches and write the pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--corpus", type=Path, default=Path("transcripts/swe_agent"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "pool.npz")
    parser.add_argument("--positions", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--name", default="SmolLM2-135M-Instruct")
    parser.add_argument("--licence", default="Apache-2.0")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    stretches = places(texts(args.corpus), tokenizer, args.positions // STRETCH, args.seed)
    parts = [rows(model, tokens) for tokens in stretches]
    pool = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    about = {
        "model": args.name,
        "licence": args.licence,
        "corpus": args.corpus.name,
        "vocabulary": model.config.vocab_size,
        "positions": len(pool["top"]),
        "context": CONTEXT,
        "stretch": STRETCH,
        "seed": args.seed,
        "synthetic": False,
    }
    np.savez_compressed(args.out, about=np.array(json.dumps(about)), **pool)
    print(args.out, args.out.stat().st_size, about)


def texts(corpus: Path) -> list[str]:
    """Return the text of each episode, message after message, in the order of the files."""
    lines = [line for path in sorted(corpus.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    return ["\n".join(strings(json.loads(line).get("messages", []))) for line in lines if line]


def strings(value: object) -> list[str]:
    """Return contents and call arguments found anywhere in the messages."""
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    if isinstance(value, dict):
        own = [text for key in ("content", "arguments") if isinstance(text := value.get(key), str)]
        return own + [text for item in value.values() if isinstance(item, dict | list) for text in strings(item)]
    return []


def places(episodes: list[str], tokenizer: AutoTokenizer, count: int, seed: int) -> list[list[int]]:
    """Return token lists of one position, its context before and a stretch after it, spread over the episodes."""
    drawn, found, at = random.Random(seed), [], 0
    span = CONTEXT + 1 + STRETCH
    while len(found) < count and at < 20 * count:
        text = episodes[at % len(episodes)]
        begin = drawn.randrange(max(1, len(text) - 8 * span))
        tokens = tokenizer.encode(text[begin : begin + 8 * span], add_special_tokens=False)[:span]
        found += [tokens] if len(tokens) == span else []
        at += 1
    return found


@torch.inference_mode()
def rows(model: AutoModelForCausalLM, tokens: list[int]) -> dict[str, np.ndarray]:
    """Return the rows of one stretch; the position before it is scored too, for `previous`."""
    logits = model(torch.tensor([tokens[:-1]])).logits[0, CONTEXT - 1 :]
    laws = torch.log_softmax(logits.double(), dim=1).numpy()
    order = np.argsort(-laws, axis=1)
    ranked = np.take_along_axis(laws, order, axis=1)
    rank = np.argsort(order, axis=1)
    before = order[:-1, :BEFORE]
    edges = [WIDTH * 2**j for j in range(20) if WIDTH * 2**j < laws.shape[1]]
    tail = np.stack([np.log(np.exp(part).mean(axis=1)) for part in np.split(ranked, edges, axis=1)[1:]], axis=1)
    return {
        "top": ranked[1:, :WIDTH].astype(np.float16),
        "tail": tail[1:].astype(np.float16),
        "previous": np.take_along_axis(laws[1:], before, axis=1).astype(np.float16),
        "ranks": np.minimum(np.take_along_axis(rank[1:], before, axis=1), 65_535).astype(np.uint16),
    }


if __name__ == "__main__":
    main()

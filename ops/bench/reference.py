"""
How fast the reference model scores a context of 32,768 tokens, and what it needs: `python ops/bench/reference.py`.

Needs the extra `reference`. Models are made here with random weights, in the shapes of a 135M and a 1.5B Llama: speed
and memory depend on shapes alone. `--tokenizer` is a folder with any tokenizer (a model needs one to be loaded). On a
GPU with --device cuda; on a CPU give --context 2048 first, for it takes minutes.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from soak.probe.reference import ReferenceModel, ReferenceOrder

# Hidden size, layers, heads, key-value heads, intermediate size, vocabulary.
SHAPES = {"135M": (576, 30, 9, 3, 1536, 49152), "1.5B": (2048, 24, 16, 8, 5632, 128256)}


def make(path: Path, shape: tuple[int, ...], tokenizer: Path) -> int:
    """Write a model of this shape with random weights; return how many parameters it has."""
    hidden, layers, heads, kv_heads, intermediate, vocabulary = shape
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            intermediate_size=intermediate,
            vocab_size=vocabulary,
            max_position_embeddings=65536,
        )
    ).to(torch.bfloat16)
    model.save_pretrained(path)
    for file in tokenizer.glob("*token*"):
        shutil.copy(file, path)
    return sum(weights.numel() for weights in model.parameters())


def measured(order: ReferenceOrder, context: int) -> Iterator[dict[str, Any]]:
    """Yield the time and, on a GPU, the peak memory of scoring the end of a context of this length."""
    reference = ReferenceModel(order)
    reference.load()
    draw = random.Random(1)
    for scored in (min(1024, context // 2), context // 2):
        ids = [draw.randrange(10, 40_000) for _ in range(context)]  # fresh: nothing of it is kept from before
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        rows = reference.score(ids, len(ids) - scored)
        took_s = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else reference.peak_bytes() or 0
        yield {
            "precision": order.precision,
            "chunk": order.chunk_tokens,
            "context": context,
            "scored": len(rows),
            "took_s": round(took_s, 2),
            "context_per_s": round(context / took_s),
            "peak_gib": round(peak / 2**30, 2),
        }


def main() -> None:
    """Measure each shape, number format and chunk; print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--context", type=int, default=32_768)
    parser.add_argument("--tokenizer", type=Path, required=True)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as place:
            parameters = make(Path(place), shape, options.tokenizer)
            for precision in ("float32", "bfloat16"):
                for chunk in (512, 4096):
                    order = ReferenceOrder(model=place, precision=precision, device=options.device, chunk_tokens=chunk)
                    for row in measured(order, options.context):
                        rows.append({"model": name, "parameters": parameters, **row})
                        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"torch": torch.__version__, "device": options.device, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

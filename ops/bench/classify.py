"""
How well and how fast answers are judged: `python ops/bench/classify.py [--rounds N] [--json]`, about four minutes.

Faults are planted at known positions in real text (tests/unit/classify/planted.py) and judged beside four simple rules
on the same token ids. Printed are the recall by kind of fault, the error of the onset, the false alarms per 1,000
honest outputs, and the cost of the streaming path and of the final judgement: medians of nine rounds in CPU time, since
machines are shared.
"""

import argparse
import json
import random
import statistics
import sys
import time
import tracemalloc
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from unit.classify.planted import (
    NEAR,
    SALAD,
    Planted,
    honest,
    honest_prose,
    library_text,
    planted,
    planted_exact,
    ranked_ids,
    ranked_salad,
    token_ids,
)

from soak.classify import Context, TurnJudge, judge
from soak.facts import Chunk, Message, Observation, TurnKey

ROUNDS = 9
PERIODS = (1, 2, 3, 5, 13, 34, 89, 233, 377, 1024)
LEADS = (200, 4_000, 60_000)
Rule = Callable[[str, tuple[int, ...]], bool]


# -- the rules beside ours ---------------------------------------------------------------------------------------------


def compression(text: str, _: tuple[int, ...]) -> bool:
    """Return whether the text shrinks by more than 2.4 (the rule of Whisper)."""
    raw = text.encode("utf-8", "replace")
    return len(raw) / len(zlib.compress(raw)) > 2.4


def distinct_grams(_: str, ids: tuple[int, ...]) -> bool:
    """Return whether more than half of the 4-grams are repeats (seq-rep-4, Welleck et al. 2019)."""
    grams = list(zip(ids, ids[1:], ids[2:], ids[3:], strict=False))
    return len(set(grams)) < 0.5 * len(grams)


def suffix_check(low: int, high: int, copies: int) -> Rule:
    """Return the rule of vLLM's repetition detection: at some token the last `copies` blocks of p tokens are equal."""

    def rule(_: str, ids: tuple[int, ...]) -> bool:
        codes = np.array(ids)
        for period in range(low, min(high, len(codes) // copies) + 1):
            equal = codes[period:] == codes[:-period]
            if equal.sum() >= (copies - 1) * period:
                edges = np.concatenate(([-1], np.flatnonzero(~equal), [len(equal)]))
                if (np.diff(edges) - 1).max() >= (copies - 1) * period:
                    return True
        return False

    return rule


RULES: dict[str, Rule] = {
    "zlib > 2.4": compression,
    "4-grams < 0.5": distinct_grams,
    "vLLM 4-128 x4": suffix_check(4, 128, 4),
    "periods 1-1024 x4": suffix_check(1, 1024, 4),
}


# -- accuracy ----------------------------------------------------------------------------------------------------------


def answer(text: str, finish: str, ids: tuple[int, ...] | None = None) -> Observation:
    """Return a stored answer with this content."""
    key = TurnKey(episode="bench", turn=0, pass_=0, arm="bench")
    return Observation(
        key=key, started_at=0.0, ending="complete", max_tokens=20_000, content=text, finish_reason=finish, token_ids=ids
    )


def faults(rounds: int) -> Iterator[tuple[str, Planted]]:
    """Yield (group, planted fault): exact loops of all periods, near-periodic loops, salad, at all depths."""
    rng = random.Random(20_000)
    for k in range(rounds):
        for period in PERIODS:
            yield "exact", planted_exact(rng, period, LEADS[(k + period) % 3], max(256, 4 * period))
        for kind in NEAR:
            yield kind, planted(rng, kind, LEADS[k % 3], rng.choice([300, 900, 3000]))
        for kind in SALAD:
            yield kind, planted(rng, kind, LEADS[k % 3], rng.choice([300, 900, 3000]))


def rare_tokens(rounds: int) -> dict[str, Any]:
    """Return the recall on salad of tokens drawn at random (all, or every second one), by text alone and on ids."""
    rng = random.Random(20_000)
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for k in range(2 * rounds):
        for name, share in (("random tokens", 1.0), ("every second random", 0.5)):
            before = honest_prose(rng, LEADS[k % 3])
            text, ids = ranked_salad(rng, rng.choice([300, 900, 3000]), share)
            found = judge(answer(before + text, "length", ranked_ids(before) + ids), Context())
            hits[name]["ids"].append(found.class_ == "garbage_loop")
            hits[name]["text"].append(judge(answer(before + text, "length"), Context()).class_ == "garbage_loop")
    return {
        name: {"n": len(found["ids"])} | {how: round(statistics.fmean(values), 3) for how, values in found.items()}
        for name, found in hits.items()
    }


def recall(rounds: int) -> dict[str, dict[str, Any]]:
    """Return by kind of fault: how many, the share found by each rule, and our error of the onset."""
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    errors: dict[str, list[float]] = defaultdict(list)
    for group, fault in faults(rounds):
        ids = token_ids(fault.text)
        found = judge(answer(fault.text, "length"), Context())
        hits[group]["soak"].append(found.class_ == "garbage_loop")
        hits[group]["soak, ids"].append(judge(answer(fault.text, "length", ids), Context()).class_ == "garbage_loop")
        hits[group]["soak, stop"].append(judge(answer(fault.text, "stop"), Context()).class_ == "garbage_loop")
        for name, rule in RULES.items():
            hits[group][name].append(rule(fault.text, ids))
        if found.class_ == "garbage_loop":
            errors[group].append(abs(found.findings[0].onset_char - fault.onset) / (fault.period or 4))
    return {
        group: {
            "n": len(found["soak"]),
            "recall": {name: round(statistics.fmean(values), 3) for name, values in found.items()},
            "onset_error": round(statistics.median(errors[group]), 2) if errors[group] else None,
            "onset_unit": "periods" if group == "exact" else "tokens",
        }
        for group, found in hits.items()
    }


def false_alarms(rounds: int) -> dict[str, Any]:
    """Return false loops per 1,000 honest outputs: ended, cut, cut beside their recorded answer; and of the rules."""
    counts: dict[str, int] = defaultdict(int)
    names: dict[str, int] = defaultdict(int)
    total = 0
    for name, text in honest(random.Random(7), rounds):
        total += 1
        cut = text[: int(0.8 * len(text))]
        beside = Context(reference=Message(role="assistant", content=text))
        counts["soak, stop"] += judge(answer(text, "stop"), Context()).class_ == "garbage_loop"
        ranked = answer(text, "stop", ranked_ids(text))
        counts["soak, stop, ids"] += judge(ranked, Context()).class_ == "garbage_loop"
        alone = judge(answer(cut, "length"), Context()).class_ == "garbage_loop"
        counts["soak, length"] += alone
        names[name] += alone
        counts["soak, length, recorded"] += judge(answer(cut, "length"), beside).class_ == "garbage_loop"
        for rule_name, rule in RULES.items():
            counts[rule_name] += rule(text, token_ids(text))
    per_mille = {name: round(1000 * count / total, 1) for name, count in counts.items()}
    return {"n": total, "per_1000": per_mille, "cut_and_alone": {name: n for name, n in names.items() if n}}


# -- cost --------------------------------------------------------------------------------------------------------------


def sample(tokens: int) -> tuple[str, tuple[int, ...]]:
    """Return ordinary text of about so many tokens, and its ids."""
    text = "".join(library_text(at) for at in range(10))
    text = (text * (1 + 4 * tokens // len(text)))[: 4 * tokens]
    return text, (token_ids(text) * 2)[:tokens]


def median_cpu_s(work: Callable[[], object]) -> float:
    """Return the median of nine measurements of the CPU time of `work`, in seconds."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def push_all(chunks: list[Chunk], context: Context) -> TurnJudge:
    """Return a judge that has seen the chunks."""
    turn = TurnJudge(context)
    for chunk in chunks:
        turn.push(chunk)
    return turn


def streaming_us(tokens: int, per_chunk: int, *, with_ids: bool) -> float:
    """Return the cost of `push` per token, in microseconds of CPU."""
    text, ids = sample(tokens)
    chunks = [
        Chunk(content=text[4 * at : 4 * (at + per_chunk)], token_ids=ids[at : at + per_chunk] if with_ids else ())
        for at in range(0, tokens, per_chunk)
    ]
    return 1e6 * median_cpu_s(lambda: push_all(chunks, Context())) / tokens


def judging_ms(observation: Observation, context: Context | None = None) -> dict[str, float]:
    """Return the cost of the final reading alone, and of the whole offline judgement, in milliseconds of CPU."""
    known = context or Context()
    final = []
    for _ in range(ROUNDS):
        turn = push_all([Chunk(content=observation.content, token_ids=observation.token_ids or ())], known)
        start = time.process_time()
        turn.finish(observation)
        final.append(time.process_time() - start)
    whole = median_cpu_s(lambda: judge(observation, known))
    return {"finish_ms": round(1e3 * statistics.median(final), 1), "judge_ms": round(1e3 * whole, 1)}


def worst_push_ms(prompt_chars: int) -> float:
    """Return the median over rounds of the longest single `push` of a looping answer after a prompt so deep."""
    prompt = ("".join(library_text(at) for at in range(10)) * (1 + prompt_chars // 500_000))[:prompt_chars]
    context = Context(prompt_text=prompt)
    text = library_text(3)[:4000] + "the parser reads the file again and " * 400
    chunks = [Chunk(content=text[at : at + 4]) for at in range(0, len(text), 4)]
    worst = []
    for _ in range(ROUNDS):
        turn, longest = TurnJudge(context), 0.0
        for chunk in chunks:
            start = time.process_time()
            turn.push(chunk)
            longest = max(longest, time.process_time() - start)
        worst.append(longest)
    return 1e3 * statistics.median(worst)


def hostile_s(chars: int) -> dict[str, float]:
    """Return the cost of judging so many hostile characters, in seconds of CPU."""
    units = {"a": "a", "words": "the of ", "marks": "<|", "braces": '{"a":', "lines": "x\n", "surrogates": "\ud800a"}
    answers = {name: answer(unit * (chars // len(unit)), "length") for name, unit in units.items()}
    taken = {}
    for name, observation in answers.items():
        start = time.process_time()
        judge(observation, Context())
        taken[name] = round(time.process_time() - start, 2)
    return taken


def stream_memory_mb(tokens: int, *, with_ids: bool) -> float:
    """Return what one judge holds after `tokens` tokens, in MB."""
    text, ids = sample(tokens)
    tracemalloc.start()
    turn = TurnJudge(Context())
    for at in range(0, tokens, 64):
        turn.push(Chunk(content=text[4 * at : 4 * at + 256], token_ids=ids[at : at + 64] if with_ids else ()))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 1e6


def cost() -> dict[str, Any]:
    """Return the cost per token and answer, its growth, and the memory per stream."""
    loop = "the parser reads the file again and " * 4000
    return {
        "push_us_per_token": {
            f"{per_chunk} a chunk": {
                "ids": round(streaming_us(20_000, per_chunk, with_ids=True), 2),
                "text": round(streaming_us(20_000, per_chunk, with_ids=False), 2),
            }
            for per_chunk in (1, 3, 16, 64)
        },
        "ms_per_answer": {
            "20,000 tokens": judging_ms(answer(sample(20_000)[0], "length")),
            "20,000 tokens, ids": judging_ms(answer(sample(20_000)[0], "length", sample(20_000)[1])),
            "20,000 tokens, stop": judging_ms(answer(sample(20_000)[0], "stop")),
            "20,000 tokens, looping": judging_ms(answer(loop[:80_000], "length")),
        },
        "worst_push_ms_by_prompt": {
            str(chars): round(worst_push_ms(chars), 2) for chars in (10_000, 240_000, 1_000_000)
        },
        "hostile_s": {str(chars): hostile_s(chars) for chars in (20_000_000, 100_000_000)},
        "judge_ms_by_tokens": {
            str(tokens): judging_ms(answer(sample(tokens)[0], "stop"))["judge_ms"]
            for tokens in (1_000, 10_000, 100_000)
        },
        "stream_mb": {
            str(tokens): {
                "ids": round(stream_memory_mb(tokens, with_ids=True), 2),
                "text": round(stream_memory_mb(tokens, with_ids=False), 2),
            }
            for tokens in (20_000, 200_000)
        },
    }


def table(result: dict[str, Any]) -> str:
    """Return the results as text."""
    names = ["soak", "soak, ids", "soak, stop", *RULES]
    lines = [f"{'fault':16}{'n':>4}" + "".join(f"{name:>19}" for name in names) + "   onset error (median)"]
    for group, row in result["recall"].items():
        shares = "".join(f"{row['recall'][name]:>19.2f}" for name in names)
        lines.append(f"{group:16}{row['n']:>4}{shares}   {row['onset_error']} {row['onset_unit']}")
    lines += ["", *(f"{name}: {value}" for name, value in result["rare_tokens"].items())]
    alarms = result["false_alarms"]
    lines += ["", f"false alarms per 1,000 honest outputs ({alarms['n']} outputs)"]
    lines += [f"  {name:26}{value:>8}" for name, value in alarms["per_1000"].items()]
    lines += [f"  cut and alone: {alarms['cut_and_alone']}", ""]
    lines += [f"{name}: {value}" for name, value in result["cost"].items()]
    return "\n".join(lines)


def main() -> None:
    """Run all and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="faults and honest outputs of each kind (default: 6)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    result = {
        "recall": recall(options.rounds),
        "rare_tokens": rare_tokens(options.rounds),
        "false_alarms": false_alarms(options.rounds),
        "cost": cost(),
    }
    print(json.dumps(result, indent=2) if options.json else table(result))


if __name__ == "__main__":
    main()

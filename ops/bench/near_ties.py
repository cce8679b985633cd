"""
Turns whose greedy answer stops at a near-tie: the end and another token lie almost level, and rounding decides.

    python -m ops.bench.near_ties --into FOLDER [--target local] [--most 240] [--wanted 1] [--below 0.05]

Short pieces of the agent corpora are asked about greedily, so that answers are short and end without a full stop: what
goes on behind the tie then shows that it was too early. Where an answer ends by itself and the second likeliest
token lies less than `--below` nats behind the end, the question is asked twice more: with the end forbidden up to there
(`min_tokens`), which gives the answer on the other side of the tie, and as it was with that answer as the recorded one.
If it is judged an early stop, it is written to FOLDER as a turn file for `soak probe --turn-file`. Never more than
`--most` questions; answers are kept in FOLDER, and the same command goes on with them.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ops.bench.collect_tokens import ROOT, Steps, pieces
from soak.app.probe.benches import Bench, ProbeOrder, open_benches
from soak.app.sides import arm_spec
from soak.facts import Case, Change, Message, Observation, Sampling, Trial, TurnKey, encode
from soak.probe import Ask, class_of

QUESTIONS = ("List the names in it, separated by commas.", "Give it a title, without a full stop.")
AT_ONCE = 8
BATCH = 24
GOES_ON = 32  # tokens beyond the tie that the other side gives


def questions(corpus: Path, most: int, max_tokens: int) -> list[Case]:
    """Return at most so many questions, each a conversation of its own, to be answered greedily."""
    found = pieces(corpus)
    random.Random(12).shuffle(found)
    return [
        Case(
            name=f"tie-{at:05d}",
            messages=(Message(role="user", content=f"{found[at]}\n\n{QUESTIONS[at % len(QUESTIONS)]}"),),
            sampling=Sampling(temperature=0.0, top_p=None, max_tokens=max_tokens),
            logprobs=5,
            tool_mode="text",
        )
        for at in range(min(most, len(found)))
    ]


def gap_of(observation: Observation) -> float | None:
    """Return how far (nats) the second likeliest token lies behind the end of an answer that ended by itself."""
    logprobs, ids = observation.logprobs or (), observation.token_ids or ()
    if observation.finish_reason != "stop" or not ids or len(logprobs) != len(ids) or len(logprobs[-1].top) < 2:
        return None
    (_, first), (_, second) = sorted(logprobs[-1].top, key=lambda one: -one[1])[:2]
    return max(first, logprobs[-1].logprob) - second


def near(bench: Bench, asked: Sequence[Case], below: float) -> Iterator[tuple[Case, Trial, float]]:
    """Ask each question greedily; yield those whose answer ends at a near-tie."""
    for at in range(0, len(asked), BATCH):
        batch = asked[at : at + BATCH]
        asks = [Ask(case=case, change=Change(same_seed=True)) for case in batch]
        for case, (trial,) in zip(batch, bench.asker.together(asks, AT_ONCE), strict=True):
            gap = gap_of(trial.observation)
            if gap is not None and gap < below:
                yield case, trial, gap


def stopped(bench: Bench, case: Case, trial: Trial) -> Case | None:
    """Return the turn with what the other side of the tie says as its recorded answer; None if it is no early stop."""
    length = len(trial.observation.token_ids or ())
    longer = Change(same_seed=True, extra_body={"min_tokens": length + GOES_ON}, sampling={"max_tokens": length + 64})
    ((other,),) = bench.asker.ask(Ask(case=case, change=longer))
    said, tokens = other.observation.content, len(other.observation.token_ids or ())
    recorded = msgspec.structs.replace(
        case, reference=Message(role="assistant", content=said), reference_tokens=tokens, logprobs=None
    )
    ((again,),) = bench.asker.ask(Ask(case=recorded, change=Change(same_seed=True)))
    if class_of(again) != "early_stop":
        return None
    key = TurnKey(episode=case.name, turn=0, pass_=0, arm="near-ties")
    seen = msgspec.structs.replace(again.observation, key=key, logprobs=None, attempts=(), request_id=None)
    return msgspec.structs.replace(recorded, observation=seen, judgement=again.judgement)


def search(args: argparse.Namespace) -> int:
    """Look until so many are found or so many were asked; return how many were found."""
    order = ProbeOrder(target=arm_spec("near-ties", args.target), folder=args.into, max_requests=3 * args.most)
    asked = questions(args.corpus, args.most, args.max_tokens)
    found = 0
    with open_benches(order, Steps()) as benches, benches.open() as bench:
        for case, trial, gap in near(bench, asked, args.below):
            tokens = len(trial.observation.token_ids or ())
            turn = stopped(bench, case, trial)
            told = "an early stop" if turn else "no early stop"
            print(f"{case.name}: {tokens} tokens, ends {gap:.3f} nats ahead: {told}", flush=True)
            if turn is not None:
                (args.into / f"{case.name}.json").write_bytes(encode(turn) + b"\n")
                found += 1
            if found >= args.wanted:
                break
        print(f"{found} found with {benches.allowance.used} requests", flush=True)
    return found


def main() -> int:
    """Read the command line and search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--target", default="local")
    parser.add_argument("--most", type=int, default=240)
    parser.add_argument("--wanted", type=int, default=1)
    parser.add_argument("--below", type=float, default=0.05, help="nats")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--corpus", type=Path, default=ROOT / "transcripts" / "swe_agent")
    return 0 if search(parser.parse_args()) else 1


if __name__ == "__main__":
    sys.exit(main())

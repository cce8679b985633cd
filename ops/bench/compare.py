"""
How long `soak compare` takes on two histories of 100,000 turns.

Makes two run folders of 1,000 episodes × 25 turns × 4 passes with answers of about 200 tokens (text and token ids), a
rate of failures of about 1 % that come in episodes, and judgements by this soak's classifiers, as a run leaves them;
then times the command as a person would start it. With --judge-again the manifests do not name the classifiers, so that
every answer is judged anew.

    python ops/bench/compare.py [--turns 100000] [--judge-again] [--keep FOLDER] [--out ops/bench/results/compare.json]
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from soak.app.judging import classifier_fingerprint
from soak.classify import DEFAULTS
from soak.facts import (
    ArmCard,
    Attempt,
    Build,
    CorpusCard,
    Judgement,
    Manifest,
    Message,
    Observation,
    Record,
    Scenario,
    Started,
    TurnKey,
    Usage,
    make_episode,
)
from soak.store import HistoryWriter, RunFolder

EPISODE_TURNS, PASSES = 25, 4
WORDS = ("the", "parser", "reads", "each", "line", "and", "keeps", "what", "it", "cannot", "place", "for", "later")


def manifest(name: str, turns: int, *, judged: bool) -> Manifest:
    """What one of the two runs says of itself."""
    scenario = Scenario(name="bench", question="how long does a comparison take", duration="-", corpus="bench")
    episodes = turns // (EPISODE_TURNS * PASSES)
    return Manifest(
        soak_version="0.1.0",
        created_at=0.0,
        scenario=msgspec.to_builtins(scenario),
        given={},
        seed=7,
        corpus=CorpusCard(
            name="bench", path="bench", digest="sha256:b", episodes=episodes, turns=episodes * EPISODE_TURNS
        ),
        arms=(ArmCard(name=name, build=Build(engine="vllm", version=name, model="m", target="http://bench")),),
        plan_digest="sha256:p",
        classifier=classifier_fingerprint(DEFAULTS) if judged else None,
    )


def record(key: TurnKey, at: float, draw: random.Random, *, failing: bool) -> Record:
    """One finished turn; a failing one is a loop that ran into its limit."""
    tokens = 2000 if failing else draw.randrange(120, 280)
    text = "no, wait. " * 500 if failing else " ".join(draw.choices(WORDS, k=tokens * 3 // 4)) + "."
    e2e_ms = 150.0 + 20.0 * tokens * draw.lognormvariate(0.0, 0.2)
    seen = Observation(
        key=key,
        started_at=at,
        ending="complete",
        max_tokens=2000,
        content=text,
        finish_reason="length" if failing else "stop",
        usage=Usage(prompt=800 * (key.turn + 1), completion=tokens, cached=700 * key.turn),
        token_ids=tuple(draw.randrange(150_000) for _ in range(200)),
        attempts=(Attempt(started_at=at, took_ms=e2e_ms, status=200),),
        ttft_ms=100.0 + draw.random() * 50,
        e2e_ms=e2e_ms,
        chunks=tokens // 2,
    )
    judgement = Judgement(class_="garbage_loop" if failing else "ok", reason="a loop" if failing else "ended")
    return Record(key=key, outcome="finished", at=at + e2e_ms / 1000, observation=seen, judgement=judgement)


def write_run(path: Path, name: str, turns: int, *, seed: int, judged: bool) -> None:
    """Write one run folder of so many turns."""
    draw = random.Random(seed)
    folder = RunFolder.create(path, manifest(name, turns, judged=judged))
    with folder.writer() as writer:
        for pass_ in range(PASSES):
            for number in range(turns // (EPISODE_TURNS * PASSES)):
                write_conversation(writer, draw, f"e{number:05}", pass_, name)
        writer.tick(turns / 8)


def write_conversation(writer: HistoryWriter, draw: random.Random, episode: str, pass_: int, arm: str) -> None:
    """Write one conversation: failures begin with a chance of 0.4 % a turn and go on with one of 60 %."""
    question = Message(role="user", content=f"Please look at {episode}.")
    node = make_episode(episode, [question, Message(role="assistant", content="I will.")]).nodes[0]
    writer.messages([node], ())
    failing = False
    for turn in range(EPISODE_TURNS):
        failing = draw.random() < (0.6 if failing else 0.004)
        key = TurnKey(episode=episode, turn=turn, pass_=pass_, arm=arm)
        at = pass_ * 25_000.0 + int(episode[1:]) * 25.0 + turn * 5.0
        writer.start(Started(key=key, start=0, at=at, seed=1, prefix=node.digest, request="sha256:r"))
        writer.finish(record(key, at, draw, failing=failing))


def main() -> None:
    """Make the runs (unless they are there), compare them, and print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--judge-again", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--out", type=Path, help="also write the figures here, as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = args.keep or Path(scratch)
        for seed, name in enumerate(("before", "after")):
            if not (place / name).exists():
                write_run(place / name, name, args.turns, seed=seed, judged=not args.judge_again)
        began = time.perf_counter()
        command = [sys.executable, "-m", "soak.cli", "compare", str(place / "before"), str(place / "after"), "--json"]
        done = subprocess.run(command, capture_output=True, check=False)
        took_s = time.perf_counter() - began
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        size_mb = sum(file.stat().st_size for file in place.rglob("*.sqlite")) / 1e6
        print(done.stderr.decode(), end="", file=sys.stderr)
    figures = {
        "turns_each": args.turns,
        "histories_mb": round(size_mb),
        "judged_again": args.judge_again,
        "wall_s": round(took_s, 1),
        "cpu_s": round(spent.ru_utime + spent.ru_stime, 1),
        "peak_mib": round(spent.ru_maxrss / 1024),
        "exit": done.returncode,
    }
    print(json.dumps(figures, indent=1))
    if args.out is not None:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The fake server in a process of its own: `python -m fakes --port 8000 --seed 7 --truth truth.jsonl`."""

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

import uvloop

from fakes.answers import Style
from fakes.canaries import Leaking
from fakes.engine import FakeEngine
from fakes.following import WAYS, Following, lines_of, mixed_ways
from fakes.law import Law
from fakes.needing import needing
from fakes.policy import DEFAULT_RATES, Policy, pre_encoded, seeded_policy
from fakes.server import FakeServer, Mind

_WAYS = ("empty", "wrong", "loops", "cheats")


def parse() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="fakes", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the URL is the first line printed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rates", help="name=share,… of the faults; `none` for no faults; default: a mixture")
    parser.add_argument("--needs", default="", help="settings without which there is no fault; see fakes.needing.NEEDS")
    parser.add_argument("--truth", type=Path, help="JSONL file the ground truth is appended to")
    parser.add_argument("--first-chunk-s", type=float, default=0.0)
    parser.add_argument("--gap-s", type=float, default=0.0)
    parser.add_argument("--answer-tokens", type=int, default=60)
    parser.add_argument("--tokens-per-chunk", type=int, default=2)
    parser.add_argument("--model", default="fake-model")
    parser.add_argument("--context", type=int, default=131_072)
    parser.add_argument("--speculation", choices=("on", "off", "stuck"), default="on")
    parser.add_argument("--prefix-cache", choices=("on", "off", "stuck"), default="on")
    parser.add_argument("--stale-from", type=int, help="cached tokens from which an answer is another one")
    parser.add_argument("--full-in-loops", action="store_true", help="all drafts are accepted while an answer loops")
    parser.add_argument("--refused-from", type=int, help="no draft is accepted for prompts of so many tokens and more")
    parser.add_argument("--preempt-every", type=int, default=0, help="every n-th request is preempted")
    parser.add_argument("--corrupt-every", type=int, default=0, help="every n-th request is found to hold NaN")
    parser.add_argument("--tells-drafts", action="store_true", help="answers tell their own drafts")
    parser.add_argument("--no-native-tools", action="store_true")
    parser.add_argument("--preempts-above", type=int, help="preempt where a request comes on top of this many")
    parser.add_argument("--leak", type=float, help="share of answers with another conversation's secret word")
    parser.add_argument("--recall", type=float, help="share of questions for the own word that are answered with it")
    parser.add_argument("--no-token-ids", action="store_true")
    parser.add_argument("--key", help="the API key asked for")
    parser.add_argument("--tasks", type=Path, help="solve the tasks of this file for whichever agent asks")
    for how in _WAYS:
        parser.add_argument(f"--{how}", default="", help=f"with --tasks: ids of tasks, comma between; see {how}")
    parser.add_argument("--burst", type=int, help="answer everything with this many ready-made chunks")
    parser.add_argument("--follow", type=Path, help="a corpus folder whose recorded answers are given, for live replay")
    parser.add_argument("--corrupt", type=float, help="answer from a known law (fakes.law), this share of tokens wrong")
    parser.add_argument("--ways", default="follow", help="how: one of `fakes.following.WAYS`, or `mixed`")
    parser.add_argument("--astray-at", type=int, default=2, help="the turn at which that begins")
    return parser.parse_args()


def rates_of(text: str | None) -> dict[str, float]:
    """Return the rates named on the command line."""
    if text is None:
        return DEFAULT_RATES
    if text == "none":
        return {}
    return {name: float(share) for name, share in (part.split("=") for part in text.split(","))}


def mind_of(args: argparse.Namespace) -> Mind:
    """Return what knows the tasks that the command line names."""
    if not args.tasks:
        return lambda _: None
    from fakes.solving import solver  # here: it reads tasks with soak's own importers

    return solver(args.tasks, **{how: filter(None, getattr(args, how).split(",")) for how in _WAYS})


def policy_of(args: argparse.Namespace, engine: FakeEngine) -> Policy:
    """Return the policy the command line asks for."""
    if args.follow:
        lines = lines_of(args.follow)
        names = WAYS if args.ways == "mixed" else (args.ways,)
        return Following(lines, mixed_ways(lines, names, args.astray_at), gap_s=args.first_chunk_s)
    if args.corrupt is not None:
        return Law(args.corrupt).policy
    if args.burst:
        return pre_encoded(args.burst, args.gap_s)
    plain = _plain_policy(args, engine)
    if args.leak is None and args.recall is None:
        return plain
    return Leaking(plain, share=args.leak or 0.0, recall=1.0 if args.recall is None else args.recall)


def _plain_policy(args: argparse.Namespace, engine: FakeEngine) -> Policy:
    paces = {"first_chunk_s": args.first_chunk_s, "gap_s": args.gap_s, "answer_tokens": args.answer_tokens}
    faulty = seeded_policy(args.seed, rates_of(args.rates), **paces)
    needs = [name for name in args.needs.split(",") if name]
    return needing(engine, needs, faulty, seeded_policy(args.seed, {}, **paces)) if needs else faulty


async def main() -> None:
    """Serve until the process is ended."""
    args = parse()
    engine = FakeEngine(
        model=args.model,
        context_tokens=args.context,
        speculation=args.speculation,
        prefix_cache=args.prefix_cache,
        stale_from=args.stale_from,
        native_tools=not args.no_native_tools,
        token_ids=not args.no_token_ids,
        requires_key=args.key,
        full_in_loops=args.full_in_loops,
        refused_from=args.refused_from,
        preempt_every=args.preempt_every,
        corrupt_every=args.corrupt_every,
        tells_drafts=args.tells_drafts,
        preempts_above=args.preempts_above,
    )
    style = replace(Style(), tokens_per_chunk=args.tokens_per_chunk)
    server = FakeServer(
        policy_of(args, engine),
        mind=mind_of(args),
        law=None if args.corrupt is None else Law(args.corrupt),
        engine=engine,
        port=args.port,
        seed=args.seed,
        style=style,
        truth_file=args.truth,
        keep_bodies=False,
    )
    await server.start()
    print(server.url, flush=True)  # noqa: T201 - the caller waits for this line
    await asyncio.Event().wait()


uvloop.run(main())

